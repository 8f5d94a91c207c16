"""The warnings of a run at its steps, which the log, the reports and the terminal show."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from driver.progress import RunProgress
from pipelines.contract.context import RunContext
from pipelines.contract.report import RunResult, SavedRows
from pipelines.contract.request import OUTPUT, Target
from pipelines.engine.run import Run
from pipelines.language.formats import Mode
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from tests.support.pipelines import make_context
from tests.support.site import Site

PAGINATED = """
fetch: {{url: "${{BASE}}/1", paginate: {{next: a}}}}
pipeline:
  - {{stage: extract, args: [{{selector: h1, as: name}}]}}
spindle: {{{options}}}
"""
CHAIN = {f"/{n}": f"<h1>{n}</h1><a href=/{n + 1}>next</a>" for n in range(1, 5)} | {"/5": "<h1>5</h1>"}


@pytest.mark.parametrize(
    ("options", "most", "warnings"),
    [
        ("maxPages: 2", 10_000, ["1 address has more than 2 pages in line 2; those beyond were not requested"]),
        ("", 3, ["1 address has more than 3 pages in line 2; those beyond were not requested"]),
        ("maxPages: 5", 10_000, []),
    ],
    ids=["maxPages", "of any run", "whole"],
)
def test_a_pagination_that_was_cut_is_a_warning_of_its_step(
    options: str, most: int, warnings: list[str], site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.extract.pagination.MAX_PAGES", most)
    plan = Pipeline.from_yaml(PAGINATED.format(options=options)).plan({"BASE": site.serve(CHAIN)})
    with Run(plan, make_context(plan)) as run:
        progress = RunProgress(plan, run)
        LocalRunner(run).collect()
        progress.finish("COMPLETED")
        fetch, *others = progress.list_stages()
        assert fetch.warnings == progress.list_warnings() == warnings
    assert not any(stage.warnings for stage in others)


@pytest.mark.parametrize(
    ("mode", "earlier", "limit", "warnings"),
    [
        ("overwrite", 7, None, ["the output has 3 rows, fewer than half of the last version's 7"]),
        ("overwrite", 6, None, []),
        ("overwrite", None, None, []),
        ("overwrite", 7, 3, []),
        ("append", 7, None, []),
    ],
)
def test_a_run_that_replaces_most_rows_by_fewer_says_so_once(
    mode: str, earlier: int | None, limit: int | None, warnings: list[str], tmp_path: Path
) -> None:
    (tmp_path / "rows.csv").write_text("name\na\nb\nc\n")
    load = f"pipeline: [{{stage: load_csv, args: ['{tmp_path}/rows.csv']}}]\n"
    plan = Pipeline.from_yaml(f"{load}output: {{path: 'spindle://shop/all', mode: {mode}}}").plan()
    targets = {OUTPUT: Target(exists=True, format="parquet", version="v1", rows=earlier)}
    with Run(plan, RunContext(targets=targets, limit=limit)) as run:
        progress = RunProgress(plan, run)
        progress.set_result(LocalRunner(run).write(str(tmp_path / "rows")))
        progress.finish("COMPLETED")
        shown = [each for stage in progress.list_stages() for each in stage.warnings]
        assert shown == progress.list_warnings() == warnings


def test_a_save_stage_that_replaces_most_rows_by_fewer_is_named() -> None:
    plan = Pipeline.from_yaml("fetch: {url: http://shop.test/}\npipeline: []").plan()
    path = "spindle://shop/saved"
    rows: dict[str, Any] = {"path": path, "format": "parquet", "folder": None, "columns": (), "rows": 3, "bytes": 9}
    saved = [SavedRows(mode=mode, **rows) for mode in (Mode.OVERWRITE, Mode.MERGE)]
    run = Run(plan, RunContext(targets={path: Target(exists=True, rows=1_007)}))
    assert run.list_drops(RunResult(None, (*saved,), [], 1)) == [
        "'spindle://shop/saved' has 3 rows, fewer than half of the last version's 1,007"
    ]
