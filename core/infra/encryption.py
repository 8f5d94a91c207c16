"""Sealing: short secrets encrypted where they are stored, under the service's key or under the caller's own."""

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

from core.errors import BadInput, Conflict, Detail

HEADER = "X-Encryption-Key"
NONCE_BYTES = 12
SCRYPT = {"n": 2**14, "r": 8, "p": 1, "dklen": 32}
SERVICES, CALLERS = "service-", "caller-"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a sealed text belongs; moved to another place it does not open."""

    owner: str
    record: str
    field: str

    @property
    def associated_data(self) -> bytes:
        return "\0".join((self.owner, self.record, self.field)).encode()


class Keyring:
    """The keys of one request: the service's, and the caller's own when it sent one, which is never stored.

    A sealed text is `<key id>.<base64 of nonce and AES-256-GCM ciphertext>`.
    """

    def __init__(self, service_key: bytes, callers_key: str | None = None) -> None:
        self._service_key = service_key
        self._service = HKDF(SHA256(), 32, salt=None, info=b"spindle sealing").derive(service_key)
        self._callers_key = callers_key
        self._derived: dict[str, bytes] = {}

    @property
    def services(self) -> Keyring:
        """The same without the caller's key."""
        return Keyring(self._service_key)

    def seal(self, text: str, place: Place) -> str:
        """Seals under the caller's key when there is one, else under the service's."""
        key = self._callers(place.owner)
        key, kind = (self._service, SERVICES) if key is None else (key, CALLERS)
        nonce = os.urandom(NONCE_BYTES)
        sealed = nonce + AESGCM(key).encrypt(nonce, text.encode(), place.associated_data)
        return f"{_key_id(kind, key)}.{base64.b64encode(sealed).decode()}"

    def open(self, sealed: str, place: Place) -> str:
        """Raises BadInput when the caller's key is needed and missing or another, Conflict when nothing opens it."""
        key_id, _, encoded = sealed.partition(".")
        key = self._key(key_id, place)
        try:
            data = base64.b64decode(encoded, validate=True)
            return AESGCM(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], place.associated_data).decode()
        except (InvalidTag, ValueError) as error:
            sentence = f"The stored value of '{place.field}' was altered and cannot be opened. Write it anew."
            raise Conflict(sentence) from error

    def resealed(self, sealed: str, place: Place, old: Keyring) -> str:
        """The text under this service key, which was sealed under the old one; raises Conflict when neither opens it.

        What is under this key already, or under a caller's, stays as it is.
        """
        if sealed.startswith((CALLERS, _key_id(SERVICES, self._service))):
            return sealed
        return self.services.seal(old.open(sealed, place), place)

    def lacks(self, sealed: str, owner: str) -> bool:
        """Whether the text is sealed under a caller's key that is not this one."""
        key = self._callers(owner) if sealed.startswith(CALLERS) else None
        return sealed.startswith(CALLERS) and (key is None or not sealed.startswith(_key_id(CALLERS, key) + "."))

    def _key(self, key_id: str, place: Place) -> bytes:
        if key_id == _key_id(SERVICES, self._service):
            return self._service
        if not key_id.startswith(CALLERS):
            raise Conflict(f"'{place.field}' was sealed under another service key. Write it anew, or restore that key.")
        key = self._callers(place.owner)
        if key is None:
            sentence = f"'{place.field}' is sealed under a key of the caller's. Send it in the header {HEADER}."
            raise BadInput(sentence, [Detail(HEADER, "is missing")])
        if key_id != _key_id(CALLERS, key):
            sentence = f"{HEADER} is not the key that '{place.field}' was sealed with."
            raise BadInput(sentence, [Detail(HEADER, "is another key")])
        return key

    def _callers(self, owner: str) -> bytes | None:
        """The key behind what the caller sent, which may be a passphrase: guessing it is made slow."""
        if self._callers_key is None:
            return None
        if owner not in self._derived:
            salt = hashlib.sha256(f"spindle {owner}".encode()).digest()
            self._derived[owner] = hashlib.scrypt(self._callers_key.encode(), salt=salt, **SCRYPT)
        return self._derived[owner]


def _key_id(kind: str, key: bytes) -> str:
    return kind + hmac.new(key, b"key id", "sha256").hexdigest()[:16]
