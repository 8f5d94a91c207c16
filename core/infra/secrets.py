"""The service's key, and files that only their owner may read."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from pydantic import SecretStr

from core.infra.files import sync
from core.infra.settings import Settings


def load_service_key(settings: Settings) -> bytes:
    """Return the 32 bytes that all keys derive from: the setting, or DATA/secret-key, created at the first start."""
    if settings.keys.secret_key is not None:
        return hash_key(settings.keys.secret_key)
    return load_key(settings.data / "secret-key")


def find_service_key(settings: Settings) -> bytes | None:
    """Return the same without creating a file; None when the setting and the file are missing."""
    exists = settings.keys.secret_key is not None or (settings.data / "secret-key").exists()
    return load_service_key(settings) if exists else None


def hash_key(setting: SecretStr) -> bytes:
    """Derive the 32 bytes from a setting of any length."""
    return hashlib.sha256(setting.get_secret_value().encode()).digest()


def load_key(path: Path) -> bytes:
    """Read the key from its file, which is created if it is missing."""
    if not path.exists():
        create_private(path, secrets.token_hex(32))
    return bytes.fromhex(path.read_text().strip())


def create_private(path: Path, text: str) -> None:
    """Create a file atomically, readable by its owner only; the first of several processes wins."""
    temporary = _write_temporary(path, text)
    try:
        os.link(temporary, path)
        sync(path.parent)
    except FileExistsError:
        return
    finally:
        temporary.unlink()


def write_private(path: Path, text: str) -> None:
    """Create or replace a file atomically, readable by its owner only."""
    _write_temporary(path, text).replace(path)
    sync(path.parent)


def _write_temporary(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return temporary
