"""Proven selectors: list, read, change and delete those of the caller's organization."""

from __future__ import annotations

from io import BytesIO
from typing import Any

from pydantic import ValidationError

from core.definitions.identity.api_keys import Identity
from core.errors import BadInput, NotFound
from core.infra.changes import Changes, example
from core.infra.storage.protocol import Storage, selectors_key
from pipelines.inference.records import ProvenField, ProvenSelectors


class SelectorsUpdate(Changes):
    """A change of proven selectors; what is left out stays."""

    model_config = example({"pinned": True})

    pinned: bool | None = None
    """Whether no run may replace them."""
    fields: list[dict[str, Any]] | None = None
    """All fields anew, as reads return them, each with its candidates, the best first."""

    def parse_fields(self) -> tuple[ProvenField, ...] | None:
        """Return the fields, whose selectors are checked as those of a model are; raise BadInput."""
        if self.fields is None:
            return None
        try:
            return tuple(map(ProvenField.model_validate, self.fields))
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"]))
            raise BadInput(f"'fields' is not valid at {place}: {first['msg']}.", path="fields") from None


def list_selectors(storage: Storage, caller: Identity, host: str | None = None) -> list[ProvenSelectors]:
    """Return the organization's proven selectors by host and id, or those of one host."""
    found = (_read(storage, file.key) for file in storage.list(selectors_key(caller.organization_id)))
    return [record for record in found if record is not None and host in (None, record.host)]


def get_selectors(storage: Storage, caller: Identity, id_: str) -> ProvenSelectors:
    """Return the proven selectors of an id; raise NotFound."""
    return _find(storage, caller, id_)[1]


def update_selectors(storage: Storage, caller: Identity, id_: str, changes: SelectorsUpdate) -> ProvenSelectors:
    """Pin proven selectors, or replace their fields; raise NotFound."""
    key, record = _find(storage, caller, id_)
    before = {each.name: each.candidates for each in record.fields}
    fields = tuple(
        each if before.get(each.name) == each.candidates else each.model_copy(update={"baseline": None, "known": {}})
        for each in changes.parse_fields() or record.fields
    )
    pinned = record.pinned if changes.pinned is None else changes.pinned
    changed = record.model_copy(update={"fields": fields, "pinned": pinned})
    storage.put(key, BytesIO(changed.to_json().encode()))
    return changed


def delete_selectors(storage: Storage, caller: Identity, id_: str) -> None:
    """Delete proven selectors, so that the next run infers them again; raise NotFound."""
    storage.delete(_find(storage, caller, id_)[0])


def _find(storage: Storage, caller: Identity, id_: str) -> tuple[str, ProvenSelectors]:
    for file in storage.list(selectors_key(caller.organization_id)):
        if file.key.endswith(f"/{id_}.json") and (record := _read(storage, file.key)) is not None:
            return file.key, record
    raise NotFound("There are no selectors with this id.")


def _read(storage: Storage, key: str) -> ProvenSelectors | None:
    """Return the record of a file, or nothing if the file has another content."""
    with storage.open(key) as file:
        content = file.read()
    try:
        return ProvenSelectors.from_json(content.decode())
    except ValueError:
        return None
