"""A signature over every file of the candidate's directory, which `model_signing verify` checks wherever it is served.

OpenSSF Model Signing (https://sigstore.dev, package ``model-signing``) with a key instead of a certificate. Made and
checked by the library, which reads all weights; it takes seconds to import.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from pipeline.errors import SignoffError
from pipeline.signoff.keys import SigningKey

SIGNATURE_FILE = "model.sig"


def sign_weights(checkpoint: Path, key: SigningKey, target: Path) -> None:
    """Write the signature over all files of ``checkpoint``.

    :raises SignoffError: the library cannot read or sign them.
    """
    from model_signing import signing

    try:
        signer = signing.Config().use_elliptic_key_signer(private_key=key.path, password=key.password)
        signer.sign(checkpoint, target)
    except (OSError, ValueError) as error:
        raise SignoffError(
            f"{checkpoint}: cannot be signed: {error}", "Check that all its files can be read."
        ) from error


def weights_fault(checkpoint: Path, signature: Path, keys: Iterable[Path]) -> str | None:
    """What is wrong between a directory and its signature, by any of the public ``keys``; None where nothing is."""
    from model_signing import hashing, verifying

    fault: str | None = "no trusted key"
    for key in keys:
        ignored = [checkpoint / SIGNATURE_FILE, signature]
        try:
            verifier = verifying.Config().use_elliptic_key_verifier(public_key=key)
            verifier.set_hashing_config(hashing.Config().set_ignored_paths(paths=ignored)).verify(checkpoint, signature)
            return None
        except Exception as error:  # noqa: BLE001 - whatever keeps a signature from being verified
            fault = str(error).splitlines()[0] if str(error) else type(error).__name__
    return fault
