"""Uploads of wheels: one file of a form, in a scratch folder until the operation has stored it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

import anyio
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException

from api.kit.concurrency import WHEEL_UPLOADS
from api.kit.multipart import Form, receive_form
from core.infra.wheels import MAX_BYTES

BODY_SECONDS = 600
T = TypeVar("T")


def describe_form(fields: dict[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the body of an upload with these fields, for the OpenAPI file."""
    file = {"type": "string", "format": "binary", "description": "A wheel, or a zip with one."}
    schema = {"type": "object", "properties": {"file": file, **fields}, "required": ["file", *required]}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


async def receive_wheel(
    request: Request,
    organization_id: str,
    scratch: AbstractContextManager[Path],
    store: Callable[[Form, Path, Path], T],
) -> T:
    """Receive a file into a scratch folder, and return the result of `store` for form, file and folder, in a thread."""
    with WHEEL_UPLOADS.acquire(organization_id):
        folder = await run_in_threadpool(scratch.__enter__)
        try:
            source = folder / "upload"
            with source.open("xb") as file:
                try:
                    with anyio.fail_after(BODY_SECONDS):
                        form = await receive_form(request, file, "file", MAX_BYTES)
                except TimeoutError as error:
                    raise HTTPException(408, headers={"Connection": "close"}) from error
            return await run_in_threadpool(store, form, source, folder)
        finally:
            with anyio.CancelScope(shield=True):
                await run_in_threadpool(scratch.__exit__, None, None, None)
