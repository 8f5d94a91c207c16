"""Cloud credentials: the organization's own, and the global ones that it may use."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from api.credentials.schemas import CredentialRecord, build_credential_record
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.concurrency import OUTBOUND
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.idempotency import REPLAYED
from api.kit.pagination import MAX_PAGE, PageOf
from api.kit.preconditions import TAGGED, IfMatch, set_etag
from api.kit.schemas import Nothing
from api.kit.services import ServicesOf
from api.kit.sessions import ReadSession, WriteSession
from core.definitions.credentials import service as credentials
from core.definitions.credentials.check import CredentialVerdict
from core.definitions.credentials.models import CredentialCreate, CredentialTest, CredentialUpdate

router = APIRouter(prefix="/cloud-credentials", tags=["cloud credentials"], route_class=KeyRoute)
CredentialId = Annotated[str, Path(alias="credentialId", description="Id of the cloud credential.")]
MAX_NUMBER = 1_000_000
DEFAULT_SIZE = 50


@router.get("", summary="List the cloud credentials, secrets masked")
def list_credentials(
    caller: Reader,
    session: ReadSession,
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
        rows = credentials.list_usable(session, caller, limit=size, offset=(page or 0) * size)
    else:
        rows = keyset.link_rows(credentials.list_usable(session, caller, limit=keyset.limit, after=keyset.after))
    return [build_credential_record(row) for row in rows]


@router.post("", dependencies=[REPLAYED], summary="Create a cloud credential", responses=TAGGED)
def create_credential(
    body: CredentialCreate,
    caller: Writer,
    services: ServicesOf,
    session: WriteSession,
    key_ring: KeyRingOf,
    response: Response,
) -> CredentialRecord:
    """Encrypt the secrets and store the credential.

    Executions get it as environment variables of the driver, such as OPENAI_API_KEY.
    """
    return build_credential_record(
        set_etag(response, credentials.create(session, services.settings, caller, body, key_ring))
    )


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
        return credentials.check(services.settings, services.database, caller, body, key_ring)


@router.get(
    "/id/{credentialId}",
    summary="Read a cloud credential, secrets masked",
    responses={**TAGGED, **answers(404)},
)
def read_credential(
    credential_id: CredentialId, caller: Reader, session: ReadSession, response: Response
) -> CredentialRecord:
    """Return a credential. Its secrets show as asterisks."""
    return build_credential_record(set_etag(response, credentials.get(session, caller, credential_id)))


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
    session: WriteSession,
    key_ring: KeyRingOf,
    if_match: IfMatch,
    response: Response,
) -> CredentialRecord:
    """Change the fields that the body has.

    A secret that is empty or masked keeps its value, as long as `endpoint` stays the same.
    """
    updated = credentials.update(session, services.settings, caller, credential_id, body, key_ring, if_match)
    return build_credential_record(set_etag(response, updated))


@router.delete("/id/{credentialId}", summary="Delete a cloud credential", responses=answers(404, 412))
def delete_credential(credential_id: CredentialId, caller: Writer, session: WriteSession, if_match: IfMatch) -> Nothing:
    """Delete a credential. Executions that have begun keep its values until they end."""
    credentials.delete(session, caller, credential_id, if_match)
    return Nothing()


@router.get("/provider/{provider}", summary="List the cloud credentials of a provider, secrets masked")
def list_credentials_of_provider(
    provider: Annotated[str, Path(description="In any case, with or without underscores.")],
    caller: Reader,
    session: ReadSession,
    page: PageOf,
) -> list[CredentialRecord]:
    """Return the organization's credentials of one provider and the global ones, oldest first."""
    rows = credentials.list_usable(session, caller, provider=provider, limit=page.limit, after=page.after)
    return [build_credential_record(row) for row in page.link_rows(rows)]
