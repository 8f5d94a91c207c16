"""Cloud credentials: the organization's own, and the global ones that it may use."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from api.credentials.schemas import (
    CredentialCreate,
    CredentialRecord,
    CredentialTest,
    CredentialUpdate,
    CredentialVerdict,
    credential_record,
)
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.concurrency import OUTBOUND
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.pagination import MAX_PAGE, PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf

router = APIRouter(prefix="/cloud-credentials", tags=["cloud credentials"], route_class=KeyRoute)
CredentialId = Annotated[str, Path(alias="credentialId", description="Id of the cloud credential.")]
MAX_NUMBER = 1_000_000
DEFAULT_SIZE = 50


@router.get("", summary="List the cloud credentials, secrets masked")
def list_credentials(
    caller: Reader,
    services: ServicesOf,
    keyset: PageOf,
    page: Annotated[int | None, Query(ge=0, le=MAX_NUMBER, description="Number of the page, from 0.")] = None,
    page_size: Annotated[
        int | None, Query(alias="pageSize", ge=1, le=MAX_PAGE, description="50 when left out.")
    ] = None,
) -> list[CredentialRecord]:
    """Return the organization's credentials and the global ones, oldest first.

    Pages are given by `page` and `pageSize`, or by `limit` and `cursor`.
    """
    if page is not None or page_size is not None:
        size = page_size or DEFAULT_SIZE
        rows = services.credentials.list(caller, limit=size, offset=(page or 0) * size)
    else:
        rows = keyset.link_rows(services.credentials.list(caller, limit=keyset.limit, after=keyset.after))
    return [credential_record(row) for row in rows]


@router.post("", summary="Create a cloud credential", responses=TAGGED)
def create_credential(
    body: CredentialCreate, caller: Writer, services: ServicesOf, key_ring: KeyRingOf, response: Response
) -> CredentialRecord:
    """Encrypt the secrets and store the credential.

    Executions get it as environment variables of the driver, such as OPENAI_API_KEY.
    """
    created = services.credentials.create(caller, body.values(), key_ring, everywhere=body.everywhere)
    return credential_record(set_etag(response, created))


@router.post(
    "/test",
    summary="Ask a provider whether a credential works",
    description="Asks with the stored credential of this `credentialId`, or with the fields of the body. The provider "
    "is asked at `endpoint` where there is one. Secrets are never part of the answer.",
    responses=answers(404, 409),
)
def test_credential(
    body: CredentialTest, caller: Writer, services: ServicesOf, key_ring: KeyRingOf
) -> CredentialVerdict:
    with OUTBOUND.acquire(caller.organization_id):
        check = services.credentials.check(caller, key_ring, body.credential_id, body.provider, body.values())
    return CredentialVerdict(provider=check.provider, **asdict(check.result))


@router.get(
    "/id/{credentialId}",
    summary="Read a cloud credential, secrets masked",
    responses={**TAGGED, **answers(404)},
)
def read_credential(
    credential_id: CredentialId, caller: Reader, services: ServicesOf, response: Response
) -> CredentialRecord:
    """Return a credential. Its secrets show as asterisks."""
    return credential_record(set_etag(response, services.credentials.get(caller, credential_id)))


@router.put(
    "/id/{credentialId}",
    summary="Change a cloud credential; what the body leaves out stays",
    responses={**TAGGED, **answers(404, 412)},
)
def update_credential(
    credential_id: CredentialId,
    body: CredentialUpdate,
    caller: Writer,
    services: ServicesOf,
    key_ring: KeyRingOf,
    if_match: IfMatch,
    response: Response,
) -> CredentialRecord:
    """Change the fields that the body has.

    A secret that is empty or masked keeps its value, as long as `endpoint` stays the same.
    """
    updated = services.credentials.update(caller, credential_id, body.values(), key_ring, if_match)
    return credential_record(set_etag(response, updated))


@router.delete("/id/{credentialId}", summary="Delete a cloud credential", responses=answers(404, 412))
def delete_credential(credential_id: CredentialId, caller: Writer, services: ServicesOf, if_match: IfMatch) -> Nothing:
    """Delete a credential. Executions that have begun keep its values until they end."""
    services.credentials.delete(caller, credential_id, if_match)
    return Nothing()


@router.get("/provider/{provider}", summary="List the cloud credentials of a provider, secrets masked")
def list_credentials_of_provider(
    provider: Annotated[str, Path(description="In any case, with or without underscores.")],
    caller: Reader,
    services: ServicesOf,
    page: PageOf,
) -> list[CredentialRecord]:
    """Return the organization's credentials of one provider and the global ones, oldest first."""
    rows = services.credentials.list(caller, provider=provider, limit=page.limit, after=page.after)
    return [credential_record(row) for row in page.link_rows(rows)]
