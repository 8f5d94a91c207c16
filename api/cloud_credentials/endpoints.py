"""Cloud credentials: the organization's own, and the global ones that it may use."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy.orm import Session

from api.cloud_credentials.schemas import CredentialCreate, CredentialRecord, CredentialUpdate, credential_record
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.encryption import KeyringOf
from api.kit.errors import answers
from api.kit.pages import MAX_PAGE, PageOf
from api.kit.schemas import Nothing
from api.kit.service import ServiceOf
from core.api_keys import Identity
from core.credentials import Credentials

router = APIRouter(prefix="/cloud-credentials", tags=["cloud credentials"], route_class=KeyRoute)
CredentialId = Annotated[str, Path(alias="credentialId", description="Id of the cloud credential.")]
MAX_NUMBER = 1_000_000
DEFAULT_SIZE = 50


def _of(session: Session, caller: Identity) -> Credentials:
    return Credentials(session, caller.organization_id, super_admin=caller.may("super_admin"))


@router.get("", summary="List the cloud credentials, secrets masked")
def list_credentials(
    caller: Reader,
    service: ServiceOf,
    keyset: PageOf,
    page: Annotated[int | None, Query(ge=0, le=MAX_NUMBER, description="Number of the page, from 0.")] = None,
    page_size: Annotated[
        int | None, Query(alias="pageSize", ge=1, le=MAX_PAGE, description="50 when left out.")
    ] = None,
) -> list[CredentialRecord]:
    numbered = page is not None or page_size is not None
    size = page_size or DEFAULT_SIZE
    with service.database.read() as session:
        repository = _of(session, caller)
        if numbered:
            credentials = repository.list(limit=size, offset=(page or 0) * size)
        else:
            credentials = keyset.linked(repository.list(limit=keyset.limit, after=keyset.after))
        return [credential_record(credential) for credential in credentials]


@router.post("", summary="Create a cloud credential")
def create_credential(
    body: CredentialCreate, caller: Writer, service: ServiceOf, keyring: KeyringOf
) -> CredentialRecord:
    with service.database.write() as session:
        created = _of(session, caller).create(body.values(), keyring, everywhere=body.everywhere)
        return credential_record(created)


@router.get("/id/{credentialId}", summary="Read a cloud credential, secrets masked", responses=answers(404))
def read_credential(credential_id: CredentialId, caller: Reader, service: ServiceOf) -> CredentialRecord:
    with service.database.read() as session:
        return credential_record(_of(session, caller).get(credential_id))


@router.put(
    "/id/{credentialId}", summary="Change a cloud credential; what the body leaves out stays", responses=answers(404)
)
def update_credential(
    credential_id: CredentialId, body: CredentialUpdate, caller: Writer, service: ServiceOf, keyring: KeyringOf
) -> CredentialRecord:
    with service.database.write() as session:
        return credential_record(_of(session, caller).update(credential_id, body.values(), keyring))


@router.delete("/id/{credentialId}", summary="Delete a cloud credential", responses=answers(404))
def delete_credential(credential_id: CredentialId, caller: Writer, service: ServiceOf) -> Nothing:
    with service.database.write() as session:
        _of(session, caller).delete(credential_id)
    return Nothing()


@router.get("/provider/{provider}", summary="List the cloud credentials of a provider, secrets masked")
def list_credentials_of_provider(
    provider: Annotated[str, Path(description="In any case, with or without underscores.")],
    caller: Reader,
    service: ServiceOf,
    page: PageOf,
) -> list[CredentialRecord]:
    with service.database.read() as session:
        credentials = _of(session, caller).list(provider=provider, limit=page.limit, after=page.after)
        return [credential_record(credential) for credential in page.linked(credentials)]
