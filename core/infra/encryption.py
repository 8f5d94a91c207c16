"""Encryption of short secrets at rest, under the service's key or under one that the caller sends."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from core.errors import BadInput, Conflict

HEADER = "X-Encryption-Key"
NONCE_BYTES = 12
SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
SERVICE_PREFIX, CALLER_PREFIX = "service-", "caller-"  # of key ids


@dataclass(frozen=True, slots=True)
class AssociatedData:
    """The field that a ciphertext belongs to. AES-GCM authenticates it: in another field it does not decrypt."""

    owner: str
    record: str
    field: str

    def encode(self) -> bytes:
        return "\0".join((self.owner, self.record, self.field)).encode()


class KeyRing:
    """The keys of one request: the service's, and the caller's own if it sent one, which is never stored.

    A ciphertext is stored as `<key id>.<base64 of nonce and AES-256-GCM output>`.
    """

    def __init__(self, service_key: bytes, caller_key: str | None = None) -> None:
        self._service_key = service_key
        self._derived_service_key = HKDF(SHA256(), 32, salt=None, info=b"spindle sealing").derive(service_key)
        self._caller_key = caller_key
        self._derived_caller_keys: dict[str, bytes] = {}

    @property
    def service_key_id(self) -> str:
        """A keyed hash that names the service key and does not reveal it."""
        return _compute_key_id(SERVICE_PREFIX, self._derived_service_key)

    @property
    def without_caller_key(self) -> KeyRing:
        return KeyRing(self._service_key)

    def encrypt(self, text: str, data: AssociatedData) -> str:
        """Encrypt under the caller's key if there is one, else under the service's."""
        key, prefix = self._derive_caller_key(data.owner), CALLER_PREFIX
        if key is None:
            key, prefix = self._derived_service_key, SERVICE_PREFIX
        nonce = os.urandom(NONCE_BYTES)
        ciphertext = nonce + AESGCM(key).encrypt(nonce, text.encode(), data.encode())
        return f"{_compute_key_id(prefix, key)}.{base64.b64encode(ciphertext).decode()}"

    def decrypt(self, stored: str, data: AssociatedData) -> str:
        """Raise BadInput if the caller's key is missing or wrong, Conflict if no key decrypts the text."""
        key_id, _, encoded = stored.partition(".")
        key = self._find_key(key_id, data)
        try:
            ciphertext = base64.b64decode(encoded, validate=True)
            return AESGCM(key).decrypt(ciphertext[:NONCE_BYTES], ciphertext[NONCE_BYTES:], data.encode()).decode()
        except (InvalidTag, ValueError) as error:
            raise Conflict(
                f"The stored value of '{data.field}' was altered and cannot be decrypted. Write it again.",
                code="undecryptable",
                path=data.field,
            ) from error

    def reencrypt(self, stored: str, data: AssociatedData, old: KeyRing) -> str:
        """Move a text from the old service key to this one; raise Conflict if neither decrypts it.

        A text under this key, or under a caller's, stays as it is.
        """
        if stored.startswith((CALLER_PREFIX, self.service_key_id)):
            return stored
        return self.without_caller_key.encrypt(old.decrypt(stored, data), data)

    def lacks_key_of(self, stored: str, owner: str) -> bool:
        """Return whether the text is encrypted under a caller's key that this request did not send."""
        if not stored.startswith(CALLER_PREFIX):
            return False
        key = self._derive_caller_key(owner)
        return key is None or not stored.startswith(_compute_key_id(CALLER_PREFIX, key) + ".")

    def _find_key(self, key_id: str, data: AssociatedData) -> bytes:
        if key_id == self.service_key_id:
            return self._derived_service_key
        if not key_id.startswith(CALLER_PREFIX):
            sentence = f"'{data.field}' was encrypted under another service key. Write it again, or restore that key."
            raise Conflict(sentence, code="undecryptable", path=data.field)
        key = self._derive_caller_key(data.owner)
        if key is None:
            sentence = f"'{data.field}' is encrypted under a key of the caller's. Send it in the header {HEADER}."
            raise BadInput(sentence, code="missing-encryption-key", path=HEADER)
        if key_id != _compute_key_id(CALLER_PREFIX, key):
            sentence = f"{HEADER} is not the key that '{data.field}' was encrypted with."
            raise BadInput(sentence, code="wrong-encryption-key", path=HEADER)
        return key

    def _derive_caller_key(self, owner: str) -> bytes | None:
        """Derive the key with scrypt, because the caller may have sent a passphrase that can be guessed."""
        if self._caller_key is None:
            return None
        if owner not in self._derived_caller_keys:
            salt = hashlib.sha256(f"spindle {owner}".encode()).digest()
            self._derived_caller_keys[owner] = hashlib.scrypt(self._caller_key.encode(), salt=salt, **SCRYPT)
        return self._derived_caller_keys[owner]


def _compute_key_id(prefix: str, key: bytes) -> str:
    return prefix + hmac.new(key, b"key id", "sha256").hexdigest()[:16]
