"""Release sign-off: a person's signature under a verdict that verifies, and the model registry that follows it.

``keys`` makes and reads signing keys, ``attestation`` states the verdict and the sign-off (in-toto Statements in DSSE
envelopes), ``weights`` binds them to the exact bytes (OpenSSF Model Signing), ``checking`` verifies all of it beside
the evidence, ``releasing`` signs off and moves the champion. docs/signoff.md is for users.
"""
