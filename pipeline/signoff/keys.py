"""Signing keys: ECDSA P-256 in PEM files, which DSSE envelopes and OpenSSF Model Signing both take."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipeline.errors import UsageError

PRIVATE, PUBLIC = "signing.key", "signing.pub"
KEYS = "QUANT_GATE_KEYS"
PASSWORD = "QUANT_GATE_KEY_PASSWORD"
AskPassword = Callable[[], str | None]


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A private key that was read. ``signer`` is securesystemslib's; ``password`` opens the file again."""

    path: Path
    signer: Any = field(repr=False)
    password: bytes | None = field(repr=False)

    @property
    def id(self) -> str:
        """How signatures name the public key."""
        return str(self.signer.public_key.keyid)


def key_directory() -> Path:
    """Where keys are kept: ``$QUANT_GATE_KEYS``, else ``quant-gate`` in the user's configuration directory."""
    configuration = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(os.environ.get(KEYS) or Path(configuration) / "quant-gate")


def new_keys(directory: Path, password: str | None) -> tuple[Path, Path]:
    """Make a pair of keys in ``directory``; returns the files of the private and of the public one.

    :param password: encrypts the private key; None leaves it to the file's permissions alone.
    :raises UsageError: there are keys already, or they cannot be written.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    encryption = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    secret = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    paths = directory / PRIVATE, directory / PUBLIC
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.ExitStack() as undo:  # half a pair would be taken for keys that are there already
            for path, content, mode in zip(paths, (secret, public), (0o600, 0o644), strict=True):
                descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
                undo.callback(path.unlink)
                with os.fdopen(descriptor, "wb") as handle:
                    handle.write(content)
            undo.pop_all()
    except FileExistsError as error:
        raise UsageError(f"{error.filename}: there is a key already", "Use it, or name another directory.") from error
    except OSError as error:
        raise UsageError(f"{directory}: cannot keep keys: {error}", f"Set {KEYS} to a directory of yours.") from error
    return paths


def load_key(path: Path | None, ask: AskPassword) -> SigningKey:
    """Read a private key, by default the one of :func:`key_directory`.

    :param ask: gives the password of an encrypted key that ``$QUANT_GATE_KEY_PASSWORD`` does not give; may give None.
    :raises UsageError: there is none, others may read it, it is of another kind, or the password is wrong.
    """
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from securesystemslib.signer import CryptoSigner

    path = path or key_directory() / PRIVATE
    try:
        content, mode = path.read_bytes(), path.stat().st_mode
    except OSError as error:
        raise UsageError(
            f"{path}: no signing key: {error.strerror}", "Make one with `quant-gate keys new`, or name it with --key."
        ) from error
    if mode & 0o077:
        raise UsageError(f"{path}: other users of this machine can read the signing key", f"chmod 600 {path}")
    password = None
    if b"ENCRYPTED" in content:
        given = os.environ.get(PASSWORD) or ask()
        if not given:
            raise UsageError(f"{path}: the key has a password", f"Give it in {PASSWORD}, or on a terminal.")
        password = given.encode()
    try:
        key = load_pem_private_key(content, password)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: the key cannot be opened", "Is it a PEM file, and the password right?") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UsageError(f"{path}: not an elliptic-curve key", "Make one with `quant-gate keys new`.")
    return SigningKey(path, CryptoSigner(key), password)


def public_keys(paths: Sequence[Path]) -> dict[Path, Any]:
    """Trusted public keys by file: those named, else the own one where there is one.

    :raises UsageError: a file is not a public key.
    """
    from cryptography.hazmat.primitives.serialization import load_pem_public_key
    from securesystemslib.signer import SSlibKey

    own = key_directory() / PUBLIC
    found = {}
    for path in paths or ([own] if own.is_file() else []):
        try:
            found[path] = SSlibKey.from_crypto(load_pem_public_key(path.read_bytes()))
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"{path}: not a public key in PEM form", f"Give a {PUBLIC} of `keys new`.") from error
    return found
