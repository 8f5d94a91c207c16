"""`spindle selectors`: list, show, pin, edit, export and delete proven selectors of a server."""

from __future__ import annotations

import json
from pathlib import Path

from pipelines.inference import ProvenSelectors
from tests.api.world import store_record
from tests.support.api import Api
from tests.support.commands import Spindle


def test_selectors_are_listed_changed_exported_and_deleted(api: Api, spindle: Spindle, tmp_path: Path) -> None:
    id_ = store_record(api, "cli.test")
    assert id_ in spindle("selectors", "list", "--host", "cli.test").output
    assert json.loads(spindle("selectors", "show", id_).output)["prompt"] == "Extract: price"
    assert spindle("selectors", "pin", id_).exit_code == 0
    assert spindle("selectors", "edit", id_, "price", ".cost").exit_code == 0
    assert spindle("selectors", "edit", id_, "title", "h1").exit_code == 1
    file = tmp_path / "selectors.json"
    assert spindle("selectors", "export", str(file)).exit_code == 0
    (exported,) = json.loads(file.read_text())
    record = ProvenSelectors.from_json(json.dumps(exported))
    assert (record.key, record.pinned) == (id_, True)
    assert record.fields[0].candidates[0].reading.selector == ".cost"
    assert spindle("selectors", "delete", id_).exit_code == 0
    assert spindle("selectors", "show", id_).exit_code == 1
