"""The gate against faults that are known: each must be caught by the check that is there for it.

``replies/`` and ``checkpoints/`` hold the catalogue, one file a fault. Reply-level faults are injected into
recorded replies and go through the real evaluators and the real decision; checkpoint-level faults are edits of a
real candidate, for the inspection and, where it cannot see them, for the engine and the verdict.
"""
