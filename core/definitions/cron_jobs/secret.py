"""The secret of a cron job's calls: a field of one of the organization's cloud credentials, named by the cron job."""

from __future__ import annotations

from pydantic.alias_generators import to_camel
from sqlalchemy.orm import Session

from core.definitions.credentials.models import PLAIN, SECRETS
from core.definitions.credentials.providers import normalize_spelling
from core.definitions.credentials.repository import CredentialRepository, decrypt_field
from core.errors import BadInput, Conflict
from core.infra.encryption import CALLER_PREFIX, KeyRing

HEADER = "X-API-Key"
DEFAULT_FIELD = "apiKey"
FIELDS = {normalize_spelling(field): field for field in (*SECRETS, *PLAIN)}


def parse_field(spelling: str) -> str:
    """Return the name of a credential's field in any spelling; raise BadInput for others."""
    field = FIELDS.get(normalize_spelling(spelling))
    if field is None:
        names = ", ".join(to_camel(each) for each in FIELDS.values())
        raise BadInput(f"'secretKey' is a field of a cloud credential: {names}.", path="secretKey")
    return field


def load_secret(session: Session, organization_id: str, name: str, spelling: str, key_ring: KeyRing) -> str:
    """Return the field in clear. The service's key must decrypt it, because a tick has no X-Encryption-Key.

    Raise BadInput when there is no such credential or value, or when the value cannot be sent; Conflict when the
    credential is disabled.
    """
    field = parse_field(spelling)
    credential = CredentialRepository(session, organization_id).find_own(name)
    if credential is None:
        sentence = f"The organization has no cloud credential with the name '{name}'."
        raise BadInput(sentence, code="unknown-credential", path="secretName")
    if not credential.enabled:
        sentence = f"The cloud credential '{name}' is disabled. Enable it, or name another one."
        raise Conflict(sentence, code="credential-disabled", path="secretName")
    if credential.secrets.get(field, "").startswith(CALLER_PREFIX):
        sentence = f"The cloud credential '{name}' is encrypted under a caller's key, which is unknown at a tick. "
        raise BadInput(
            f"{sentence}Write it without X-Encryption-Key.", code="missing-encryption-key", path="secretName"
        )
    value = decrypt_field(credential, field, key_ring.without_caller_key)
    if not value:
        sentence = f"The cloud credential '{name}' has no '{to_camel(field)}'."
        raise BadInput(sentence, code="missing-field", path="secretKey")
    if not (value.isascii() and value.isprintable()):
        sentence = f"'{to_camel(field)}' of '{name}' contains a character that an HTTP header cannot have."
        raise BadInput(sentence, path="secretKey")
    return value
