"""Pages of cloud credentials: their list, and forms that write secrets and never show them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.responses import HTMLResponse
from pydantic.alias_generators import to_camel

from api.console.rendering import render
from api.console.routes import ConsolePageOf, open_router
from api.credentials import endpoints as credentials
from api.credentials.endpoints import CredentialId
from api.credentials.schemas import CredentialRecord
from api.kit.auth import Reader
from api.kit.services import ServicesOf
from core.definitions.credentials.check import REQUESTS
from core.definitions.credentials.models import LOGIN_FIELD, PLAIN, SECRETS
from core.definitions.credentials.providers import get_variables, parse_provider
from core.definitions.identity.api_keys import Identity
from core.definitions.identity.roles import SUPER_ADMIN
from core.integrations.notifications.channels import FIELDS
from pipelines.login import LOGIN
from pipelines.registry import CREDENTIALS

router = open_router()


@dataclass(frozen=True, slots=True)
class FormField:
    """A field of a credential's form; `stored` says whether a secret, whose value no page has, is set."""

    name: str
    secret: bool
    stored: bool
    value: str | None
    variables: Sequence[str]


@router.get("/credentials")
def show_credentials(request: Request, caller: Reader, services: ServicesOf, page: ConsolePageOf) -> HTMLResponse:
    with services.database.read() as session:
        listed = credentials.list_credentials(caller, session, page)
    return render(
        request,
        "credentials.html",
        credentials=listed,
        changeable=[each.id for each in listed if may_change(caller, each)],
        following=page.following,
        targets=[*FIELDS],
        providers=[entry.name for entry in CREDENTIALS],
    )


@router.get("/credentials/new")
def show_new_credential(
    request: Request, caller: Reader, provider: Annotated[str, Query(max_length=255)] = ""
) -> HTMLResponse:
    name = parse_provider(provider)
    return render(
        request,
        "credential.html",
        credential=None,
        may=caller.may("etl:write"),
        etag=None,
        provider=name,
        fields=list_fields(name),
        is_target=name in FIELDS,
        can_be_checked=False,
    )


@router.get("/credentials/{credentialId}")
def show_credential(
    request: Request, response: Response, credential_id: CredentialId, caller: Reader, services: ServicesOf
) -> HTMLResponse:
    with services.database.read() as session:
        credential = credentials.read_credential(credential_id, caller, session, response)
    return render(
        request,
        "credential.html",
        credential=credential,
        may=may_change(caller, credential),
        etag=response.headers["ETag"],
        provider=credential.provider,
        fields=list_fields(credential.provider, credential),
        is_target=credential.provider in FIELDS,
        can_be_checked=credential.provider in REQUESTS,
    )


def may_change(caller: Identity, credential: CredentialRecord) -> bool:
    """Return whether the caller may change the credential; a global one takes a super_admin."""
    return caller.may("etl:write") and (credential.organization_id is not None or caller.may(SUPER_ADMIN))


def list_fields(provider: str, credential: CredentialRecord | None = None) -> Sequence[FormField]:
    """Return the fields that the provider uses, and others that are set; all of them for an unknown provider."""
    variables = get_variables(provider)
    names = [fields[0] for fields in variables.values()] or FIELDS.get(provider, ())
    if provider == LOGIN:
        names = [LOGIN_FIELD]
    known = names or (*SECRETS, *PLAIN)
    set_too = [name for name in (*SECRETS, *PLAIN) if credential and getattr(credential, name)]
    return [
        FormField(
            name=to_camel(name),
            secret=name in SECRETS,
            stored=bool(credential and getattr(credential, name)),
            value=getattr(credential, name) if credential and name in PLAIN else None,
            variables=[variable for variable, fields in variables.items() if fields[0] == name],
        )
        for name in dict.fromkeys([*known, *set_too])
    ]
