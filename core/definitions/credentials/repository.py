"""Cloud credentials: encrypted at rest, never returned in clear, passed only to the drivers of executions."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from pydantic.alias_generators import to_camel
from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from core.definitions.credentials.models import (
    LOGIN_FIELD,
    MAX_VALUE_LENGTH,
    PLAIN,
    SECRETS,
    CredentialCreate,
    CredentialUpdate,
)
from core.definitions.credentials.providers import check_region, get_variables, normalize_spelling, parse_provider
from core.errors import BadInput, Conflict, Forbidden, NotFound
from core.infra.encryption import AssociatedData, KeyRing
from core.infra.repository import Repository
from core.tables import CloudCredential, Execution, Job, new_id
from pipelines.filesystem import make_user_access, name_bucket_variable, parse_bucket_variable
from pipelines.login import LOGIN, LOGIN_VARIABLE, Login
from pipelines.planning.plan import NamedCredential

MASK = "********"
GLOBAL = "global"
AWS = "AWS"


class CredentialRepository(Repository[CloudCredential]):
    """An organization's credentials and the global ones, which it may use but only a super_admin may change."""

    row = CloudCredential
    noun = "cloud credential"

    def __init__(self, session: Session, organization_id: str, *, super_admin: bool = False) -> None:
        super().__init__(session, organization_id)
        self._super_admin = super_admin

    def create(self, new: CredentialCreate, key_ring: KeyRing) -> CloudCredential:
        """Create a credential, a global one with `everywhere`, which takes a super_admin."""
        columns = new.to_columns()
        check_region(columns["provider"], new.region)
        if new.everywhere:
            self._require_super_admin()
        owner = None if new.everywhere else self.organization_id
        credential = CloudCredential(id=new_id(), organization_id=owner, name=columns["provider"], secrets={})
        self.session.add(credential)
        return self._write(credential, columns, key_ring)

    def list(
        self,
        *,
        provider: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        offset: int = 0,
    ) -> Sequence[CloudCredential]:
        query = self._select()
        if provider is not None:  # stored names differ from the normalized spelling by underscores only
            spelling = normalize_spelling(parse_provider(provider))
            query = query.where(func.replace(CloudCredential.provider, "_", "") == spelling)
        return self._fetch_page(query.offset(offset) if offset else query, limit, after)

    def get(self, credential_id: str) -> CloudCredential:
        return self._fetch_by_id(credential_id)

    def find_own(self, name: str) -> CloudCredential | None:
        """Return the organization's own credential with this name: of several, the oldest enabled one."""
        named = self._select().where(CloudCredential.organization_id.is_not(None), CloudCredential.name == name)
        return self.session.scalar(named.order_by(CloudCredential.enabled.desc(), CloudCredential.id).limit(1))

    def find_login(self, name: str) -> CloudCredential:
        """Return the organization's own login of this name; raise BadInput, or Conflict for a disabled one."""
        own = self._select().where(CloudCredential.organization_id.is_not(None))
        own = own.where(CloudCredential.name == name, CloudCredential.provider == LOGIN)
        found = self.session.scalar(own.order_by(CloudCredential.enabled.desc(), CloudCredential.id).limit(1))
        if found is None:
            message = f"There is no login '{name}'. Record it with `spindle login URL --name {name}`."
            raise BadInput(message, code="unknown-credential", path="spindle.login")
        if not found.enabled:
            sentence = f"The login '{name}' is disabled. Enable it, or name another one."
            raise Conflict(sentence, code="credential-disabled", path="spindle.login")
        return found

    def select_for_buckets(self, named: Mapping[str, NamedCredential]) -> Mapping[str, CloudCredential]:
        """Return the credentials that a pipeline names for buckets, the organization's own before global ones.

        Raise BadInput for an unknown name, Conflict for a disabled one.
        """
        return {bucket: self._find_named(each.name, each.location) for bucket, each in named.items()}

    def select_bucket_sources(self, sources: Mapping[str, str]) -> Mapping[str, CloudCredential]:
        """Return the credentials of buckets, by bucket; `sources` are an execution's variables and credential ids."""
        buckets = ((parse_bucket_variable(name), credential_id) for name, credential_id in sources.items())
        return {bucket: self.get_enabled(credential_id) for bucket, credential_id in buckets if bucket}

    def _find_named(self, name: str, location: str) -> CloudCredential:
        own_first = (CloudCredential.enabled.desc(), CloudCredential.organization_id.is_(None), CloudCredential.id)
        query = self._select().where(CloudCredential.name == name, CloudCredential.provider == AWS)
        credential = self.session.scalar(query.order_by(*own_first).limit(1))
        if credential is None:
            message = f"There is no cloud credential of the provider AWS with the name '{name}'."
            raise BadInput(message, code="unknown-credential", path=location)
        if not credential.enabled:
            sentence = f"The cloud credential '{name}' is disabled. Enable it, or name another one."
            raise Conflict(sentence, code="credential-disabled", path=location)
        return credential

    def update(self, credential_id: str, changes: CredentialUpdate, key_ring: KeyRing) -> CloudCredential:
        """Merge the changes. A secret that is sent masked stays, unless `endpoint` changes: BadInput."""
        credential, columns = self._get_changeable(credential_id), changes.to_columns()
        check_region(columns.get("provider", credential.provider), columns.get("region", credential.region))
        return self._write(credential, columns, key_ring)

    def delete(self, credential_id: str) -> None:
        """Delete a credential; running executions keep the values that they were given."""
        self.session.delete(self._get_changeable(credential_id))
        self.session.flush()

    def select_for_execution(self, ids: Sequence[str], key_ring: KeyRing) -> Sequence[CloudCredential]:
        """Return the credentials with these ids; without ids, the default one of every provider.

        The default is the oldest enabled one, the organization's before global ones. Credentials under a caller's key
        that this request did not send are no defaults. Raise BadInput for an unknown id, Conflict for a disabled one.
        """
        if ids:
            return [self.get_enabled(credential_id) for credential_id in dict.fromkeys(ids)]
        query = self._select().where(CloudCredential.enabled)
        by_rank = query.order_by(CloudCredential.organization_id.is_(None), CloudCredential.id)
        defaults: dict[str, CloudCredential] = {}
        for credential in self.session.scalars(by_rank):
            owner = _get_owner(credential)
            if not any(key_ring.lacks_key_of(stored, owner) for stored in credential.secrets.values()):
                defaults.setdefault(normalize_spelling(credential.provider), credential)
        return list(defaults.values())

    def check_keys(self, names: Collection[str], key_ring: KeyRing) -> None:
        """Raise BadInput when one of these variables would come from a credential under another X-Encryption-Key."""
        for credential in self.session.scalars(self._select().where(CloudCredential.enabled)):
            if not get_variables(credential.provider).keys().isdisjoint(names):
                _build_variables(credential, key_ring)

    def _select(self) -> Select[tuple[CloudCredential]]:
        owner = CloudCredential.organization_id
        return select(CloudCredential).where(or_(owner == self.organization_id, owner.is_(None)))

    def get_enabled(self, credential_id: str) -> CloudCredential:
        try:
            credential = self.get(credential_id)
        except NotFound as error:
            raise BadInput(error.sentence, code="unknown-credential", path="cloudCredentialIds") from error
        if not credential.enabled:
            sentence = f"The cloud credential '{credential.name}' is disabled. Enable it, or choose another one."
            raise Conflict(sentence, code="credential-disabled", path="cloudCredentialIds")
        return credential

    def _get_changeable(self, credential_id: str) -> CloudCredential:
        credential = self.get(credential_id)
        if credential.organization_id is None:
            self._require_super_admin()
        return credential

    def _require_super_admin(self) -> None:
        if not self._super_admin:
            sentence = "Only keys with the scope super_admin create and change global cloud credentials."
            raise Forbidden(sentence, code="missing-scope")

    def _write(self, credential: CloudCredential, columns: dict[str, Any], key_ring: KeyRing) -> CloudCredential:
        sent = {field: columns.pop(field, "") for field in SECRETS}
        new = {field: value for field, value in sent.items() if value.strip("*")}
        if columns.get("endpoint", credential.endpoint) != credential.endpoint and credential.secrets.keys() - new:
            raise BadInput(
                "Stored secrets are not sent to another 'endpoint'. Send all secrets of the credential again with it.",
                code="missing-field",
                path="endpoint",
            )
        if columns.get("provider", credential.provider) == LOGIN:
            _check_login(new)
        elif len(new.get(LOGIN_FIELD, "")) > MAX_VALUE_LENGTH:
            path = to_camel(LOGIN_FIELD)
            raise BadInput(f"'{path}' is longer than {MAX_VALUE_LENGTH} characters.", path=path)
        encrypted = {field: key_ring.encrypt(value, bind_credential(credential, field)) for field, value in new.items()}
        return self._apply(credential, {**columns, "secrets": {**credential.secrets, **encrypted}})


def _check_login(secrets: Mapping[str, str]) -> None:
    try:
        if text := secrets.get(LOGIN_FIELD):
            Login.from_json(text)
    except ValueError as error:
        sentence = str(error)
        raise BadInput(f"{sentence[0].upper()}{sentence[1:]}.", path=to_camel(LOGIN_FIELD)) from None


def get_job_credential_ids(job: Job) -> Sequence[str]:
    """Return the ids that a job itself names."""
    return job.cloud_credential_ids or ([job.cloud_credential_id] if job.cloud_credential_id else [])


def freeze_environment(
    execution: Execution,
    credentials: Sequence[CloudCredential],
    key_ring: KeyRing,
    buckets: Mapping[str, CloudCredential] = MappingProxyType({}),
    login: CloudCredential | None = None,
) -> None:
    """Store the credentials' variables on the execution, encrypted, with the id of every variable's credential.

    `buckets` are the credentials of single buckets, and add one variable for every bucket, as does the `login`.
    Raise BadInput when a credential needs another X-Encryption-Key or has no keys, Conflict when its value does not
    decrypt.
    """
    values: dict[str, str] = {}
    sources: dict[str, str] = {}
    for credential in credentials:
        for name, value in _build_variables(credential, key_ring).items():
            if name not in values:
                values[name], sources[name] = value, credential.id
    for bucket, credential in buckets.items():
        access = make_user_access(_build_variables(credential, key_ring), bucket)
        if access is None:
            sentence = f"The cloud credential '{credential.name}' has no accessKeyId and secretAccessKey."
            raise BadInput(sentence, code="missing-field", path="secretAccessKey")
        variable = name_bucket_variable(bucket)
        values[variable], sources[variable] = access.to_json(), credential.id
    if login is not None:
        if (state := decrypt_field(login, LOGIN_FIELD, key_ring)) is None:
            sentence = f"The login '{login.name}' has no apiSecret, which is the storage state of a browser."
            raise BadInput(sentence, code="missing-field", path="apiSecret")
        values[LOGIN_VARIABLE], sources[LOGIN_VARIABLE] = state, login.id
    execution.credentials = sources
    execution.sealed_environment = (
        key_ring.without_caller_key.encrypt(json.dumps(values), bind_environment(execution)) if values else None
    )


def decrypt_environment(execution: Execution, key_ring: KeyRing) -> dict[str, str]:
    """Return the credential variables of an execution that has not ended; raise Conflict if they do not decrypt."""
    if execution.sealed_environment is None:
        return {}
    return json.loads(key_ring.decrypt(execution.sealed_environment, bind_environment(execution)))


def decrypt_fields(credential: CloudCredential, key_ring: KeyRing) -> dict[str, str]:
    """Return all fields of the credential that are set, in clear; raise like `freeze_environment`."""
    values = {field: decrypt_field(credential, field, key_ring) for field in (*SECRETS, *PLAIN)}
    return {field: value for field, value in values.items() if value}


def bind_credential(credential: CloudCredential, field: str) -> AssociatedData:
    return AssociatedData(_get_owner(credential), credential.id, field)


def bind_environment(execution: Execution) -> AssociatedData:
    return AssociatedData(execution.organization_id, execution.id, "environment")


def _build_variables(credential: CloudCredential, key_ring: KeyRing) -> dict[str, str]:
    """Map the credential to the environment variables of its provider."""
    variables: dict[str, str] = {}
    for name, fields in get_variables(credential.provider).items():
        value = next(filter(None, (decrypt_field(credential, field, key_ring) for field in fields)), None)
        if value is not None:
            variables[name] = value
    return variables


def decrypt_field(credential: CloudCredential, field: str, key_ring: KeyRing) -> str | None:
    """Return the field in clear, None when it is not set; raise like `freeze_environment`."""
    if field in PLAIN:
        return getattr(credential, field)
    stored = credential.secrets.get(field)
    return None if stored is None else key_ring.decrypt(stored, bind_credential(credential, field))


def _get_owner(credential: CloudCredential) -> str:
    return credential.organization_id or GLOBAL
