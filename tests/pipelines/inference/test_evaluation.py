"""The evaluation of labelled pages: what metadata alone gives, what a model adds, and what a wrong one costs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cli.main import main
from pipelines.inference.evaluation import FieldScore, evaluate, read_labelled_pages
from pipelines.inference.prompts import make_question
from pipelines.inference.proving import infer
from pipelines.inference.templates import get_features
from pipelines.models.client import ModelClient
from tests.support.models import Json, answer_truth, serve_model
from tests.support.pages import document
from tests.support.templates import HOST, TEMPLATES, get_truth, make_pages, write_labelled_pages

PAGES = {name: make_pages(name, 12, 12 * at) for at, name in enumerate(TEMPLATES)}


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("labelled") / "pages.jsonl"
    write_labelled_pages(path, 12)
    return path


def test_without_a_model_metadata_alone_is_measured(labelled: Path) -> None:
    pages = read_labelled_pages(labelled)
    found = evaluate(pages, None)
    assert (found.pages, len(pages)) == (120, 120)
    described = [page for page in pages if "/microdata/" in page.url or "/table/" in page.url]
    assert [score.f1 for score in evaluate(described, None).scores.values()] == [1.0, 1.0, 1.0]
    assert all(score.wrong == 0 and 0.2 <= score.recall < 1 for score in found.scores.values())
    assert sum(found.errors.values()) >= 12 * 5


def test_a_right_model_reads_all_templates_in_five_calls_each(labelled: Path) -> None:
    with serve_model(answer_truth(get_truth(*(page for pages in PAGES.values() for page in pages)))) as server:
        client = ModelClient(server.make_model())
        found = evaluate(read_labelled_pages(labelled), client)
    assert all(score.precision == 1 and score.recall > 0.9 for score in found.scores.values())
    assert client.usage.calls == len(server.requests) <= 5 * found.templates
    assert client.usage.tokens_in > 0


def test_a_wrong_model_loses_recall_and_gives_no_wrong_value(labelled: Path) -> None:
    def answer(task: str, data: Json, schema: Json) -> object:
        if "pages" not in schema["properties"]:
            return {name: [] for name in schema["properties"]}
        nothing = {"value": "£999.00", "cue": None}
        fields = ("title", "price", "rating")
        return {"pages": [{"page": page["page"], "content": dict.fromkeys(fields, nothing)} for page in data["pages"]]}

    with serve_model(answer) as server:
        found = evaluate(read_labelled_pages(labelled), ModelClient(server.make_model()))
    assert all(score.wrong == 0 and score.recall < 0.6 for score in found.scores.values())


def test_a_list_of_pages_is_measured_by_the_selectors_of_a_lock_file_without_a_model(tmp_path: Path) -> None:
    pages = PAGES["classes"]
    with serve_model(answer_truth(get_truth(*pages))) as server:
        samples, features = [page.make_sample() for page in pages], get_features(document(pages[0].html))
        question = make_question("Extract: title, price, rating")
        record = infer(question, HOST, "t", features, samples, ModelClient(server.make_model())).record
    assert record is not None
    lock, labelled = tmp_path / "shop.lock", tmp_path / "pages.json"
    lock.write_text(f"[{record.to_json()}]")
    made = [{"url": page.url, "html": page.html, "values": dict(page.values)} for page in pages]
    labelled.write_text(json.dumps(made, indent=1))
    environment = {"OPENAI_API_KEY": "", "OPENAI_BASE_URL": ""}
    done = CliRunner().invoke(main, ["eval", str(labelled), "--selectors", str(lock)], env=environment)
    assert done.exit_code == 0
    assert re.search(r"price +1\.000 +1\.000 +1\.000 +12 ", done.output)
    labelled.write_text(json.dumps([*made, {"url": "http://x/"}]))
    assert CliRunner().invoke(main, ["eval", str(labelled)], env=environment).exit_code == 1
    with pytest.raises(ValueError, match=r"^page 13: html: Field required"):
        read_labelled_pages(labelled)


def test_scores() -> None:
    score = FieldScore()
    for label, value in (("a", "a"), ("b", "c"), ("d", None), (None, "e"), (None, None), ("£5.00", "5.00")):
        score.add(label, value)
    assert (score.right, score.wrong, score.missed) == (2, 2, 2)
    assert (score.precision, score.recall, score.f1) == (0.5, 0.5, 0.5)


def test_the_command_prints_scores_tokens_and_cost(
    labelled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TOGETHERAI", "OPENAI", "ANTHROPIC"):
        monkeypatch.delenv(f"{name}_API_KEY", raising=False)
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    ran = CliRunner().invoke(main, ["eval", str(labelled)])
    assert ran.exit_code == 0, ran.output
    assert [line.split()[0] for line in ran.output.splitlines()[1:4]] == ["title", "price", "rating"]
    assert "120 pages of" in ran.output
    assert "no model" in ran.output
    with serve_model(answer_truth(get_truth(*PAGES["classes"]))) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        some = tmp_path / "some.jsonl"
        some.write_text("\n".join(line for line in labelled.read_text().splitlines() if "/classes/" in line))
        ran = CliRunner().invoke(main, ["eval", str(some), "--model", "rules-1", "--max-calls", "5"])
    assert f"OPENAI rules-1: {len(server.requests)} calls" in ran.output
    assert "at most $0.0000" in ran.output
    some.write_text(json.dumps({"url": "http://a/", "html": "", "values": {}}))
    ran = CliRunner().invoke(main, ["eval", str(some)])
    assert (ran.exit_code, "line 1: values" in ran.output) == (1, True)
