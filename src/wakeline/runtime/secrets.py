"""The one key that encrypts what must not lie open in the database: issuer keys and webhook secrets.

It comes from `WAKELINE_KEY` or from the file `key` in the data directory, which the first start makes, readable by its
owner only.  All nodes of one database share it; a node that cannot decrypt what it finds refuses to start.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from wakeline.core.queries import IssuerKeys
from wakeline.core.records import IssuerKey
from wakeline.core.store import Store
from wakeline.errors import Unusable

KEY_FILE = "key"
SHARED_BITS = 0o077


def load_box(data: Path, key: str, *, make: bool) -> Fernet:
    """`make`: nothing is encrypted yet, so a missing key may be made."""
    try:
        return Fernet(key or _key_from_file(data / KEY_FILE, make=make))
    except ValueError as error:
        raise Unusable("KEY_MISMATCH", "The key is not one of ours: 32 bytes in URL-safe base 64.") from error


def _key_from_file(path: Path, *, make: bool) -> bytes:
    if not path.exists():
        if not make:
            raise Unusable("KEY_MISMATCH", f"The database holds secrets, and the key to them is not at {path}.")
        _make_key(path)
    if path.stat().st_mode & SHARED_BITS:
        path.chmod(0o600)
    return path.read_bytes().strip()


def _make_key(path: Path) -> None:
    """Whole or not at all, and on disk before anything is encrypted with it."""
    partial = path.with_name(f"{path.name}.partial")
    with os.fdopen(os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(Fernet.generate_key() + b"\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def make_issuer_key(box: Fernet, kid: str, now: int) -> IssuerKey:
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    return IssuerKey(kid, public.decode(), seal(box, private), now)


def open_issuer_key(box: Fernet, row: IssuerKey) -> Ed25519PrivateKey:
    key = serialization.load_pem_private_key(unseal(box, row.private_key), password=None)
    assert isinstance(key, Ed25519PrivateKey)  # noqa: S101 - we made it
    return key


def seal(box: Fernet, secret: bytes) -> str:
    return box.encrypt(secret).decode()


def unseal(box: Fernet, sealed: str) -> bytes:
    try:
        return box.decrypt(sealed.encode())
    except InvalidToken as error:
        raise Unusable("KEY_MISMATCH", "This key does not open the secrets in the database.") from error


async def public_keys(store: Store) -> dict[str, Ed25519PublicKey]:
    keys = {}
    for row in await store.read(IssuerKeys()):
        key = serialization.load_pem_public_key(row.public_key.encode())
        assert isinstance(key, Ed25519PublicKey)  # noqa: S101 - we made it
        keys[row.kid] = key
    return keys
