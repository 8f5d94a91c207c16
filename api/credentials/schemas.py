"""Cloud credentials as JSON. Secrets are never returned in clear."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from api.kit.schemas import Record
from core.definitions.credentials.models import SECRETS
from core.definitions.credentials.repository import MASK
from core.infra.encryption import CALLER_PREFIX
from core.tables import CloudCredential


class CredentialRecord(Record):
    """`organizationId` is null for a global one. Secrets that are set show as asterisks."""

    id: str
    """Id of the credential."""
    organization_id: str | None
    """Id of the organization that it belongs to; null for a global one."""
    name: str
    description: str | None
    provider: str
    """The provider under its usual name."""
    enabled: bool
    """Whether executions get it."""
    api_key: str | None
    """Asterisks where it is set, else null."""
    api_secret: str | None
    """Asterisks where it is set, else null."""
    access_key_id: str | None
    """Asterisks where it is set, else null."""
    secret_access_key: str | None
    """Asterisks where it is set, else null."""
    region: str | None
    endpoint: str | None
    """Where the provider is reached; null for its usual address."""
    engine_id: str | None
    needs_encryption_key: bool
    """Whether X-Encryption-Key is needed to use it."""
    created_at: datetime
    updated_at: datetime


def build_credential_record(credential: CloudCredential) -> CredentialRecord:
    shown: dict[str, Any] = {field: MASK if field in credential.secrets else None for field in SECRETS}
    shown["needs_encryption_key"] = any(sealed.startswith(CALLER_PREFIX) for sealed in credential.secrets.values())
    plain = CredentialRecord.model_fields.keys() - shown.keys()
    return CredentialRecord(**shown, **{field: getattr(credential, field) for field in plain})
