"""`spindle selectors`: list, show, pin, edit, export and delete proven selectors of a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.check import check
from cli.output import OutputFile
from cli.run import run
from pipelines.inference.proving import infer
from pipelines.inference.records import ProvenSelectors
from pipelines.inference.store import SelectorStore
from pipelines.inference.templates import get_features
from pipelines.models.client import ModelClient
from tests.api.world import store_record
from tests.support.api import Api
from tests.support.commands import Spindle
from tests.support.models import answer_truth, serve_model
from tests.support.site import Site, serve_site
from tests.support.templates import HOST, ask_for_all, get_truth, make_listing, make_pages

PIPELINE = """
fetch: {url: "${B}/"}
pipeline:
  - {stage: wgetJoin, args: [ul.list a]}
  - {stage: iextract, args: ["title as title and price as price and rating as rating"]}
spindle: {model: {maxCalls: 5, maxCost: 0.5, maxCallsPerHost: 4}}
"""


def prove_selectors() -> ProvenSelectors:
    """Return selectors of the pipeline's prompt, as if they had been proven on the local site."""
    pages, question = make_pages("classes", 6), ask_for_all()
    features = get_features(pages[0].make_sample().element.document)
    with serve_model(answer_truth(get_truth(*pages))) as server:
        client, samples = ModelClient(server.make_model()), [page.make_sample() for page in pages]
        record = infer(question, HOST, "t", features, samples, client).record
    return record.model_copy(update={"host": "127.0.0.1", "prompt_key": question.key})


def test_a_lock_file_is_replayed_without_a_key(tmp_path: Path, capsys: pytest.CaptureFixture[str], web: Site) -> None:
    changed = prove_selectors()
    lock, pipeline, output = tmp_path / "lock.json", tmp_path / "shop.yaml", tmp_path / "rows.jsonl"
    lock.write_text(f"[{changed.to_json()}]")
    pipeline.write_text(PIPELINE)
    fresh = make_pages("classes", 4, 40)
    base = web.serve({"/": make_listing(*fresh), **{page.path: page.html for page in fresh}})
    code = run(pipeline, OutputFile(output, append=False), [f"B={base}"], guard=False, selectors=lock)
    assert code == 0
    assert [json.loads(line) for line in output.read_text().splitlines()] == [dict(page.values) for page in fresh]
    assert check(pipeline, []) == 0
    printed = capsys.readouterr()
    assert "model: at most 5 calls, $0.50; 4 calls for each host" in printed.out
    assert "4 pages by proven selectors, 0 calls of the model, 0 tokens, $0.0000" in printed.err
    with serve_site() as other:
        changed_pages = {
            page.path: page.html.replace(page.values["price"], "") for page in make_pages("classes", 8, 40)
        }
        base = other.serve({"/": make_listing(*make_pages("classes", 8, 40)), **changed_pages})
        output.unlink()
        assert run(pipeline, OutputFile(output, append=False), [f"B={base}"], guard=False, selectors=lock) == 0
    assert {json.loads(line)["price"] for line in output.read_text().splitlines()} == {None}
    assert "'price' is missing on 8 of 8 pages of this run, on 0 of 6 before" in capsys.readouterr().err.replace(
        "\n", ""
    )
    lock.write_text("{}")
    assert run(pipeline, None, [f"B={base}"], guard=False, selectors=lock) == 1


def test_a_run_names_the_file_of_selectors_that_do_not_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], web: Site
) -> None:
    record, pipeline = prove_selectors(), tmp_path / "shop.yaml"
    SelectorStore(str(tmp_path / "spindle-selectors")).put(record)
    pipeline.write_text(PIPELINE)
    pages = make_pages("classes", 8, 40)
    changed = {page.path: page.html.replace(page.values["price"], "") for page in pages}
    base = web.serve({"/": make_listing(*pages), **changed})
    assert run(pipeline, None, [f"B={base}"], guard=False, cache=tmp_path) == 0
    printed = capsys.readouterr().err.replace("\n", "")
    assert "'price' is missing on 8 of 8 pages of this run, on 0 of 6 before" in printed
    (file,) = tmp_path.glob("spindle-selectors/127.0.0.1/*.json")
    assert f"delete the file {file}, and the next run infers it again" in printed


def test_selectors_are_listed_changed_exported_and_deleted(api: Api, spindle: Spindle, tmp_path: Path) -> None:
    id_ = store_record(api, "cli.test")
    listed = spindle("selectors", "list", "--host", "cli.test").output
    assert id_ in listed
    assert "price (100), click button.more" in listed
    assert json.loads(spindle("selectors", "show", id_).output)["prompt"] == "Extract: price"
    assert spindle("selectors", "pin", id_).exit_code == 0
    assert spindle("selectors", "edit", id_, "price", ".cost").exit_code == 0
    assert spindle("selectors", "edit", id_, "title", "h1").exit_code == 1
    file = tmp_path / "selectors.json"
    assert spindle("selectors", "export", str(file)).exit_code == 0
    (exported,) = json.loads(file.read_text())
    record = ProvenSelectors.from_json(json.dumps(exported))
    assert (record.key, record.pinned) == (id_, True)
    assert [(each.action, each.params["timeout"]) for each in record.steps] == [("click", 5)]
    assert record.fields[0].candidates[0].reading.selector == ".cost"
    assert spindle("selectors", "delete", id_).exit_code == 0
    assert spindle("selectors", "show", id_).exit_code == 1
