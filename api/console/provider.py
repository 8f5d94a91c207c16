"""Signing in by the provider of OpenID Connect: there, and back with a code."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import RedirectResponse, Response

from api.console.rendering import render
from api.console.sessions import HOME, get_origin, open_session, set_cookie
from api.kit.services import ServicesOf
from core.definitions.identity.console_sessions import begin_session
from core.definitions.identity.people import store_person
from core.errors import Forbidden, NotFound, SpindleError
from core.integrations.oidc import ATTEMPT_SECONDS, EXPIRED

PATH = f"{HOME}/sign-in/provider"
ATTEMPT_COOKIE = "spindle_sign_in"
Text = Annotated[str, Query(max_length=8000)]
router = APIRouter(include_in_schema=False)


@router.get(PATH)
def begin_sign_in(request: Request, services: ServicesOf, target: Text = HOME) -> Response:
    """Lead the browser to the provider."""
    if services.provider is None:
        raise NotFound("Nobody but keys signs in here: SPINDLE_OIDC_ISSUER is not set.")
    try:
        address, kept = services.provider.begin(f"{get_origin(request, services)}{PATH}/callback", target)
    except SpindleError as error:
        return render(request, "sign_in.html", error.status, target=target, problem=error.sentence)
    response = RedirectResponse(address, HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"})
    set_cookie(request, services, response, ATTEMPT_COOKIE, kept, ATTEMPT_SECONDS)
    return response


@router.get(f"{PATH}/callback")
def complete_sign_in(
    request: Request, services: ServicesOf, state: Text = "", code: Text = "", error: Text = ""
) -> Response:
    """Begin the session of the person whom the provider sends back with a code."""
    if services.provider is None:
        raise NotFound("Nobody but keys signs in here: SPINDLE_OIDC_ISSUER is not set.")
    try:
        if error:
            name = error if re.fullmatch(r"\w{1,40}", error) else "an error"
            raise Forbidden(f"The provider has not signed you in ({name}).")
        kept = request.cookies.get(ATTEMPT_COOKIE)
        if not (kept and code):
            raise Forbidden(EXPIRED)
        attempt, claims = services.provider.complete(kept, state, code)
        with services.database.write() as session:
            person = store_person(session, services.keys, services.provider.find_rights(session, claims))
            token = begin_session(session, person_id=person.id)
        response = open_session(request, services, services.keys.authenticate(token), token, attempt.target)
    except SpindleError as problem:
        response = render(request, "sign_in.html", problem.status, target=HOME, problem=problem.sentence)
    response.delete_cookie(ATTEMPT_COOKIE)
    return response
