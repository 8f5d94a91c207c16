"""Cloud credentials: sealed where they are stored, never shown, given to the drivers of executions alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from core.credentials.providers import PROVIDERS, check_region, provider_key, provider_name
from core.errors import BadInput, Conflict, Detail, Forbidden, NotFound
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.repository import Repository, validate_fields
from core.tables import CloudCredential, Execution, Job, new_id

MASK = "********"
SECRETS = ("api_key", "api_secret", "access_key_id", "secret_access_key")
PLAIN = ("region", "endpoint", "engine_id")
LONGEST_VALUE = 16 * 2**10
GLOBAL = "global"


class Credentials(Repository[CloudCredential]):
    """An organization's credentials and the global ones, which it may use, and only a super_admin change."""

    row = CloudCredential
    noun = "cloud credential"
    fields = frozenset({"name", "provider", "enabled", *SECRETS, *PLAIN})

    def __init__(self, session: Session, organization_id: str, *, super_admin: bool = False) -> None:
        super().__init__(session, organization_id)
        self._super_admin = super_admin

    def create(self, values: Mapping[str, Any], key_ring: KeyRing, *, everywhere: bool = False) -> CloudCredential:
        """`everywhere` makes a global one. Raises BadInput without a provider, Forbidden where only others may."""
        known = self._checked(values)
        if "provider" not in known:
            raise BadInput("A cloud credential needs a 'provider'.", [Detail("provider", "is missing")])
        check_region(known["provider"], known.get("region"))
        if everywhere:
            self._check_super_admin()
        owner = None if everywhere else self.organization_id
        credential = CloudCredential(id=new_id(), organization_id=owner, name=known["provider"], secrets={})
        self.session.add(credential)
        return self._write(credential, known, key_ring)

    def list(
        self,
        *,
        provider: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        offset: int = 0,
    ) -> Sequence[CloudCredential]:
        query = self._select()
        if provider is not None:
            # a spelling differs in its underscores alone once `provider_name` has been through it
            same = func.replace(CloudCredential.provider, "_", "") == provider_key(provider_name(provider))
            query = query.where(same)
        return self._fetch_page(query.offset(offset) if offset else query, limit, after)

    def get(self, credential_id: str) -> CloudCredential:
        return self._fetch_by_id(credential_id)

    def update(self, credential_id: str, changes: Mapping[str, Any], key_ring: KeyRing) -> CloudCredential:
        """Merges; a secret that is sent back masked stays, unless it would go to another `endpoint`: BadInput."""
        credential, known = self._changeable(credential_id), self._checked(changes)
        check_region(known.get("provider", credential.provider), known.get("region", credential.region))
        return self._write(credential, known, key_ring)

    def delete(self, credential_id: str) -> None:
        """Executions that run keep what they were given."""
        self.session.delete(self._changeable(credential_id))
        self.session.flush()

    def chosen(self, given: Sequence[str], key_ring: KeyRing) -> Sequence[CloudCredential]:
        """Those with the given ids; without any, of each provider an enabled one of the organization, else a global.

        Of several the oldest. What is sealed under a caller's key that was not sent is chosen only by its id.
        Raises BadInput for an id that is unknown, Conflict for one that is disabled.
        """
        if given:
            return [self._given(credential_id) for credential_id in dict.fromkeys(given)]
        query = self._select().where(CloudCredential.enabled)
        by_rank = query.order_by(CloudCredential.organization_id.is_(None), CloudCredential.id)
        first: dict[str, CloudCredential] = {}
        for credential in self.session.scalars(by_rank):
            if not any(key_ring.lacks_key_of(sealed, _owner(credential)) for sealed in credential.secrets.values()):
                first.setdefault(provider_key(credential.provider), credential)
        return list(first.values())

    def _select(self) -> Select[tuple[CloudCredential]]:
        owner = CloudCredential.organization_id
        return select(CloudCredential).where(or_(owner == self.organization_id, owner.is_(None)))

    def _given(self, credential_id: str) -> CloudCredential:
        try:
            credential = self.get(credential_id)
        except NotFound as error:
            raise BadInput(error.sentence, [Detail("cloudCredentialIds", error.sentence)]) from error
        if not credential.enabled:
            raise Conflict(f"The cloud credential '{credential.name}' is disabled. Enable it, or name another.")
        return credential

    def _changeable(self, credential_id: str) -> CloudCredential:
        credential = self.get(credential_id)
        if credential.organization_id is None:
            self._check_super_admin()
        return credential

    def _check_super_admin(self) -> None:
        if not self._super_admin:
            raise Forbidden("Global cloud credentials are made and changed by keys with the scope super_admin.")

    def _checked(self, values: Mapping[str, Any]) -> dict[str, Any]:
        known = validate_fields(values, self.fields)
        for field in (*SECRETS, *PLAIN):
            if len(known.get(field, "")) > LONGEST_VALUE:
                sentence = f"'{field}' is longer than {LONGEST_VALUE} characters."
                raise BadInput(sentence, [Detail(field, sentence)])
        return known | ({"provider": provider_name(known["provider"])} if "provider" in known else {})

    def _write(self, credential: CloudCredential, known: Mapping[str, Any], key_ring: KeyRing) -> CloudCredential:
        sent = {field: known[field] for field in SECRETS if known.get(field, "").strip("*")}
        if known.get("endpoint", credential.endpoint) != credential.endpoint and credential.secrets.keys() - sent:
            sentence = "Secrets are not passed on to another 'endpoint'. Send all of the credential's anew with it."
            raise BadInput(sentence, [Detail("endpoint", sentence)])
        sealed = {field: key_ring.encrypt(value, bind_credential(credential, field)) for field, value in sent.items()}
        plain = {field: value for field, value in known.items() if field not in SECRETS}
        return self._apply(credential, {**plain, "secrets": {**credential.secrets, **sealed}})


def named(job: Job) -> Sequence[str]:
    """The ids that a job names itself."""
    return job.cloud_credential_ids or ([job.cloud_credential_id] if job.cloud_credential_id else [])


def inject(execution: Execution, credentials: Sequence[CloudCredential], key_ring: KeyRing) -> None:
    """Freezes on the execution which variable comes from which credential, and their values, sealed until its end.

    Raises BadInput when a credential needs another X-Encryption-Key, Conflict when its value cannot be opened.
    """
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    for credential in credentials:
        for name, value in _variables(credential, key_ring).items():
            if name not in values:
                values[name], sources[name] = value, credential.id
    execution.credentials = sources
    execution.sealed_environment = (
        key_ring.without_caller_key.encrypt(json.dumps(values), bind_environment(execution)) if values else None
    )


def environment(execution: Execution, key_ring: KeyRing) -> dict[str, str]:
    """The credential variables of an execution that has not ended; Conflict when they cannot be opened."""
    if execution.sealed_environment is None:
        return {}
    return json.loads(key_ring.decrypt(execution.sealed_environment, bind_environment(execution)))


def opened(credential: CloudCredential, key_ring: KeyRing) -> dict[str, str]:
    """All fields of the credential that are set, its secrets in the clear; raises as `inject` does."""
    values = {field: _value(credential, field, key_ring) for field in (*SECRETS, *PLAIN)}
    return {field: value for field, value in values.items() if value}


def _variables(credential: CloudCredential, key_ring: KeyRing) -> dict[str, str]:
    """The environment variables that the credential's provider makes of it."""
    found: dict[str, str] = {}
    for name, fields in PROVIDERS.get(credential.provider, {}).items():
        value = next(filter(None, (_value(credential, field, key_ring) for field in fields)), None)
        if value is not None:
            found[name] = value
    return found


def _value(credential: CloudCredential, field: str, key_ring: KeyRing) -> str | None:
    if field in PLAIN:
        return getattr(credential, field)
    sealed = credential.secrets.get(field)
    return None if sealed is None else key_ring.decrypt(sealed, bind_credential(credential, field))


def _owner(credential: CloudCredential) -> str:
    return credential.organization_id or GLOBAL


def bind_credential(credential: CloudCredential, field: str) -> AssociatedData:
    """Where a credential's secret belongs; elsewhere it does not open."""
    return AssociatedData(_owner(credential), credential.id, field)


def bind_environment(execution: Execution) -> AssociatedData:
    """Where the values that an execution was given belong."""
    return AssociatedData(execution.organization_id, execution.id, "environment")
