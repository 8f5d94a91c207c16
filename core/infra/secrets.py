"""The service's own key, and how a secret file comes to be."""

from __future__ import annotations

import hashlib
import os
import secrets
from pathlib import Path

from pydantic import SecretStr

from core.infra.files import sync
from core.infra.settings import Settings


def service_key(settings: Settings) -> bytes:
    """32 bytes that everything secret is derived from: the setting, or DATA/secret-key, made at first start."""
    if settings.secret_key is not None:
        return key_of(settings.secret_key)
    return key_in(settings.data / "secret-key")


def key_of(setting: SecretStr) -> bytes:
    """The key that a setting's text stands for."""
    return hashlib.sha256(setting.get_secret_value().encode()).digest()


def key_in(path: Path) -> bytes:
    """The key in the file, which is made when it is not there."""
    if not path.exists():
        write_once(path, secrets.token_hex(32))
    return bytes.fromhex(path.read_text().strip())


def write_once(path: Path, text: str) -> None:
    """Creates the file whole and readable by its owner alone; of several processes the first one wins."""
    temporary = _written_aside(path, text)
    try:
        os.link(temporary, path)
        sync(path.parent)
    except FileExistsError:
        return
    finally:
        temporary.unlink()


def write_private(path: Path, text: str) -> None:
    """Creates or replaces the file whole, readable by its owner alone."""
    _written_aside(path, text).replace(path)
    sync(path.parent)


def _written_aside(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return temporary
