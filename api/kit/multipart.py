"""Multipart forms whose file is written to disk as it arrives."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, BinaryIO

from fastapi import Request
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from api.kit.middleware import get_content_length
from core.errors import BadInput, TooLarge
from core.infra.validation import is_storable

CHUNK_BYTES = 2**20
MAX_FIELD_BYTES = 64 * 2**10
MAX_FIELDS = 50
FORM_BYTES = 2**20  # of a form besides its file
TRUNCATED = "The upload ended before its last part was complete. Send it again."


@dataclass(slots=True)
class Form:
    """The fields of a form, and the base name that the client gave its file; None before the file."""

    fields: dict[str, str] = field(default_factory=dict[str, str])
    file_name: str | None = None


async def receive_form(request: Request, file: BinaryIO, part: str, max_bytes: int) -> Form:
    """Write the file in the part of this name to `file`, and return the fields.

    Raises TooLarge for a larger file, before it is read if its size is announced, and BadInput for a body that is not a
    complete form with such a part.
    """
    kind, options = parse_options_header(request.headers.get("content-type", ""))
    if kind != b"multipart/form-data" or b"boundary" not in options:
        sentence = f"Send the file as multipart/form-data, in a part called '{part}'."
        raise BadInput(sentence, code="invalid-content-type", path="body")
    if get_content_length(request.scope) > max_bytes + FORM_BYTES:
        raise _make_too_large(max_bytes)
    receiver = _Receiver(file, part, max_bytes)
    parser = MultipartParser(options[b"boundary"], receiver.callbacks)  # type: ignore[arg-type]
    try:
        pending = bytearray()
        async for chunk in request.stream():
            pending += chunk
            if len(pending) >= CHUNK_BYTES:
                await run_in_threadpool(parser.write, bytes(pending))
                pending.clear()
        await run_in_threadpool(parser.write, bytes(pending))
        parser.finalize()
    except ClientDisconnect as error:
        raise BadInput(TRUNCATED, code="truncated-upload", path="file") from error
    except MultipartParseError as error:
        raise BadInput("The multipart form is malformed.", code="invalid-content-type", path="body") from error
    if not receiver.complete:
        raise BadInput(TRUNCATED, code="truncated-upload", path="file")
    if receiver.form.file_name is None:
        raise BadInput(f"The form has no part '{part}' with the file.", code="missing-field", path=part)
    return receiver.form


class _Receiver:
    """The parser's callbacks."""

    def __init__(self, file: BinaryIO, part: str, max_bytes: int) -> None:
        self.form = Form()
        self.complete = False
        self._file, self._part, self._max_bytes = file, part, max_bytes
        self._received = 0
        self._in_file = False
        self._name = ""
        self._header, self._header_value, self._value = bytearray(), bytearray(), bytearray()
        self._headers: dict[str, bytes] = {}

    @property
    def callbacks(self) -> dict[str, Any]:
        return {
            "on_part_begin": self._begin_part,
            "on_header_field": self._extend_header,
            "on_header_value": self._extend_header_value,
            "on_header_end": self._end_header,
            "on_headers_finished": self._finish_headers,
            "on_part_data": self._receive,
            "on_part_end": self._end_part,
            "on_end": self._end,
        }

    def _begin_part(self) -> None:
        self._headers, self._value = {}, bytearray()

    def _extend_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]

    def _extend_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def _end_header(self) -> None:
        self._headers[self._header.decode("latin-1").lower()] = bytes(self._header_value)
        self._header, self._header_value = bytearray(), bytearray()

    def _finish_headers(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", b""))
        self._name = options.get(b"name", b"").decode("utf-8", "replace")
        self._in_file = self._name == self._part
        if self._in_file:
            if self.form.file_name is not None:
                raise BadInput(f"The form has two parts '{self._part}'. Send one file at a time.", path=self._part)
            self.form.file_name = _get_base_name(options.get(b"filename", b"").decode("utf-8", "replace"))
        elif len(self.form.fields) >= MAX_FIELDS:
            raise BadInput(f"The form has more than {MAX_FIELDS} fields.", path="body")

    def _receive(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._received += end - start
            if self._received > self._max_bytes:
                raise _make_too_large(self._max_bytes)
            self._file.write(memoryview(data)[start:end])
        else:
            self._value += data[start:end]
            if len(self._value) > MAX_FIELD_BYTES:
                raise TooLarge(f"A field of the form has more than {MAX_FIELD_BYTES} bytes.")

    def _end_part(self) -> None:
        if not self._in_file:
            self.form.fields[self._name] = self._value.decode("utf-8", "replace")

    def _end(self) -> None:
        self.complete = True


def _get_base_name(name: str) -> str:
    """Return the name without folders of either separator; no file is ever stored under it."""
    base = PurePosixPath(name.replace("\\", "/")).name
    return base if is_storable(base) else ""


def _make_too_large(max_bytes: int) -> TooLarge:
    return TooLarge(f"An upload has at most {max_bytes} bytes (SPINDLE_UPLOAD_GIGABYTES).", path="file")
