"""Cloud credentials: the organization's own, and the global ones that it may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Path, Query
from sqlalchemy.orm import Session

from api.cloud_credentials.schemas import (
    CredentialCreate,
    CredentialRecord,
    CredentialTest,
    CredentialUpdate,
    CredentialVerdict,
    credential_record,
)
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.concurrency import OUTSIDE
from api.kit.encryption import KeyRingOf
from api.kit.errors import answers
from api.kit.pagination import MAX_PAGE, PageOf
from api.kit.preconditions import TAGGED, ExpectedOf, TagOf
from api.kit.schemas import Nothing
from api.kit.services import Services, ServicesOf
from core.credentials.check import check_credential
from core.credentials.providers import provider_name
from core.credentials.repository import PLAIN, SECRETS, Credentials, opened
from core.errors import BadInput, Detail
from core.identity.api_keys import Identity
from core.infra.encryption import KeyRing

router = APIRouter(prefix="/cloud-credentials", tags=["cloud credentials"], route_class=KeyRoute)
CredentialId = Annotated[str, Path(alias="credentialId", description="Id of the cloud credential.")]
MAX_NUMBER = 1_000_000
DEFAULT_SIZE = 50
FIELDS = frozenset({*SECRETS, *PLAIN})


def _of(session: Session, caller: Identity) -> Credentials:
    return Credentials(session, caller.organization_id, super_admin=caller.may("super_admin"))


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
    numbered = page is not None or page_size is not None
    size = page_size or DEFAULT_SIZE
    with services.database.read() as session:
        repository = _of(session, caller)
        if numbered:
            credentials = repository.list(limit=size, offset=(page or 0) * size)
        else:
            credentials = keyset.linked(repository.list(limit=keyset.limit, after=keyset.after))
        return [credential_record(credential) for credential in credentials]


@router.post("", summary="Create a cloud credential", responses=TAGGED)
def create_credential(
    body: CredentialCreate, caller: Writer, services: ServicesOf, key_ring: KeyRingOf, tag: TagOf
) -> CredentialRecord:
    with services.database.write() as session:
        created = _of(session, caller).create(body.values(), key_ring, everywhere=body.everywhere)
        tag.put(created)
        return credential_record(created)


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
    provider, fields = _asked(body, caller, services, key_ring)
    with OUTSIDE.seat(caller.organization_id):
        verdict = check_credential(services.settings, provider, fields)
    return CredentialVerdict(provider=provider, **asdict(verdict))


def _asked(
    body: CredentialTest, caller: Identity, services: Services, key_ring: KeyRing
) -> tuple[str, Mapping[str, str]]:
    """The provider that is asked, and the credential's fields."""
    if body.credential_id is not None:
        with services.database.read() as session:
            credential = _of(session, caller).get(body.credential_id)
        return credential.provider, opened(credential, key_ring)
    if body.provider is None:
        sentence = "Send the 'credentialId' of a stored credential, or a 'provider' with its fields."
        raise BadInput(sentence, [Detail("credentialId", "is missing"), Detail("provider", "is missing")])
    return provider_name(body.provider), {name: text for name, text in body.values().items() if name in FIELDS}


@router.get(
    "/id/{credentialId}",
    summary="Read a cloud credential, secrets masked",
    responses={**TAGGED, **answers(404)},
)
def read_credential(credential_id: CredentialId, caller: Reader, services: ServicesOf, tag: TagOf) -> CredentialRecord:
    with services.database.read() as session:
        credential = _of(session, caller).get(credential_id)
        tag.put(credential)
        return credential_record(credential)


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
    expected: ExpectedOf,
) -> CredentialRecord:
    with services.database.write() as session:
        repository = _of(session, caller)
        expected.hold(session, caller, repository.get(credential_id))
        credential = repository.update(credential_id, body.values(), key_ring)
        expected.put(credential)
        return credential_record(credential)


@router.delete("/id/{credentialId}", summary="Delete a cloud credential", responses=answers(404, 412))
def delete_credential(
    credential_id: CredentialId, caller: Writer, services: ServicesOf, expected: ExpectedOf
) -> Nothing:
    with services.database.write() as session:
        repository = _of(session, caller)
        expected.hold(session, caller, repository.get(credential_id))
        repository.delete(credential_id)
    return Nothing()


@router.get("/provider/{provider}", summary="List the cloud credentials of a provider, secrets masked")
def list_credentials_of_provider(
    provider: Annotated[str, Path(description="In any case, with or without underscores.")],
    caller: Reader,
    services: ServicesOf,
    page: PageOf,
) -> list[CredentialRecord]:
    with services.database.read() as session:
        credentials = _of(session, caller).list(provider=provider, limit=page.limit, after=page.after)
        return [credential_record(credential) for credential in page.linked(credentials)]
