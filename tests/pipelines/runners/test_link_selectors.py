"""Selectors of links that find nothing: counted, warned of, and required, on both runners and in a trial."""

from __future__ import annotations

from pathlib import Path

import pytest

from driver.progress import RunProgress
from pipelines.engine.run import Run
from pipelines.errors import RunError
from pipelines.local.runner import LocalRunner
from pipelines.pipeline import Pipeline
from pipelines.planning.stage import LinkStage
from tests.support.pipelines import TITLE, Make, find_problem, make_context
from tests.support.site import Site
from tests.support.trials import open_trial

PAGES = {
    "/": "<li><a class=item href=/a>A</a><li><a class=next href=/2>2</a>",
    "/2": "<li><a class=item href=/b>B</a><li><a class=next href=/3>3</a>",
    "/3": "<li><a class=item href=/c>C</a>",
    **{f"/{name}": f"<h1>{name}</h1>" for name in "abc"},
}
EXPLORE = "{stage: explore, args: [a.next, 5]}"


def start(site: Site, *stages: str, options: str = "") -> tuple[Run, RunProgress]:
    text = f"fetch: {{url: '{site.serve(PAGES)}/'}}\npipeline:\n" + "".join(f"- {each}\n" for each in stages)
    plan = Pipeline.from_yaml(text + options).plan()
    run = Run(plan, make_context(plan))
    return run, RunProgress(plan, run)


@pytest.mark.parametrize(
    ("stages", "rows", "selector"),
    [
        (("{stage: explore, args: [a.nxt, 5]}",), 1,
         "line 3: wgetExplore: selector a.nxt found nothing on 1 of 1 page"),
        ((EXPLORE, "{stage: join, args: [a.itm]}", TITLE), 3,
         "line 4: wgetJoin: selector a.itm found nothing on 3 of 3 pages"),
        ((EXPLORE, "{stage: join, args: [a.itm, Inner]}", TITLE), 0,
         "line 4: wgetJoin: selector a.itm found nothing on 3 of 3 pages"),
        ((EXPLORE, "{stage: flatSelect, args: [ul]}", "{stage: join, args: [a.item]}"), 3,
         "line 4: flatSelect: selector ul found nothing on 3 of 3 pages"),
        (("{stage: explore, args: [a, {depth: 5, include: /none, sameHost: true}]}",), 1,
         "line 3: wgetExplore: selector a with sameHost and include found nothing on 1 of 1 page"),
        (("{stage: join, args: [a.item]}", "{stage: intelligentJoin, args: [auto]}"), 1,
         "line 4: intelligentJoin: prompt auto found nothing on 1 of 1 page"),
        ((EXPLORE, "{stage: join, args: [a.item, Inner]}", TITLE), 3, None),
        (("{stage: flatSelect, args: [li, [{selector: a, as: name}]]}", "{stage: join, args: [a.item]}"), 2, None),
        (("{stage: explore, args: [a.nxt, 0]}",), 1, None),
    ],
)  # fmt: skip
def test_a_selector_without_any_link_is_a_warning(
    stages: tuple[str, ...], rows: int, selector: str | None, make: Make, site: Site, tmp_path: Path
) -> None:
    run, progress = start(site, *stages)
    with run:
        output = make(run).write(str(tmp_path / "rows")).output
        progress.finish("COMPLETED")
        assert output is not None
        assert output.rows == rows
        assert progress.list_warnings() == ([] if selector is None else [selector])
        assert [each for stage in progress.list_stages() for each in stage.warnings] == (progress.list_warnings())
        assert {stage.state for stage in progress.list_stages()} == {"COMPLETED"}


def test_the_pages_of_a_selector_are_counted_at_its_stage(make: Make, site: Site, tmp_path: Path) -> None:
    run, progress = start(site, EXPLORE, "{stage: join, args: ['a.item[href=/b]']}", TITLE)
    with run:
        make(run).write(str(tmp_path / "rows"))
        progress.finish("COMPLETED")
        _, explore, join, title, _ = progress.list_stages()
    found = [{"column": None, "selector": "a.next", "pages": 3, "empty": 1, "unfit": 0}]
    assert [each.to_json() for each in explore.selectors] == found
    assert [each.to_json() for each in join.selectors] == [{**found[0], "selector": "a.item[href=/b]", "empty": 2}]
    assert (join.rows, join.pages, title.selectors[0].pages) == (3, 1, 1)


@pytest.mark.parametrize(
    ("stages", "sentence"),
    [
        (("{stage: explore, args: [a.nxt, {depth: 2, required: true}]}",), "line 3: wgetExplore: selector a.nxt"),
        (("{stage: wgetExplore, args: {selector: a.nxt, depth: 2, required: true}}",),
         "line 3: wgetExplore: selector a.nxt"),
        (("{stage: join, args: [a.itm, Inner, {required: true}]}", TITLE), "line 3: wgetJoin: selector a.itm"),
        (("{stage: join, args: [a.item]}", "{stage: intelligentJoin, args: [auto, {required: true}]}"),
         "line 4: intelligentJoin: prompt auto"),
        (("{stage: flatSelect, args: [ul]}", "{stage: join, args: [a.item, {required: true}]}"),
         "line 3: flatSelect: selector ul"),
        (("{stage: explore, args: [a.next, {depth: 2, required: true}]}",
          "{stage: join, args: [a.item, {required: true}]}"), None),
    ],
)  # fmt: skip
def test_a_required_selector_without_any_link_fails_the_run(
    stages: tuple[str, ...], sentence: str | None, make: Make, site: Site, tmp_path: Path
) -> None:
    run, _ = start(site, *stages)
    with run:
        if sentence is None:
            make(run).write(str(tmp_path / "rows"))
            return
        with pytest.raises(RunError) as error:
            make(run).write(str(tmp_path / "rows"))
    assert str(error.value) == f"{sentence} found nothing on 1 of 1 page"


def test_links_that_are_required_of_pages_that_none_led_to_fail_the_run(make: Make, site: Site, tmp_path: Path) -> None:
    run, _ = start(site, "{stage: join, args: [a.itm]}", "{stage: join, args: [a, {required: true}]}")
    with run, pytest.raises(RunError, match=r"^line 3: wgetJoin: a\.itm found no link on the pages before it$"):
        make(run).write(str(tmp_path / "rows"))


def test_the_step_of_missing_links_has_not_begun_while_its_pages_are_searched(site: Site) -> None:
    run, progress = start(site, EXPLORE, "{stage: join, args: [a.itm, Inner]}", TITLE)
    with run:
        LocalRunner(run).collect()
        states = [stage.state for stage in progress.list_stages()]
    assert states == ["COMPLETED", "RUNNING", "PENDING", "PENDING", "PENDING"]


@pytest.mark.parametrize("name", ["visitJoin", "visitExplore", "intelligentExplore"])
def test_stages_of_the_browser_and_of_prompts_take_required(name: str) -> None:
    stages = f"[{{stage: {name}, args: [a.next, {{required: true}}]}}]"
    plan = Pipeline.from_yaml(f"fetch: {{url: http://shop.test/}}\npipeline: {stages}").plan()
    stage = plan.steps[1].stage
    assert isinstance(stage, LinkStage)
    (selector,) = stage.list_selectors()
    assert (selector.selector, selector.required) == ("a.next", True)


def test_the_links_of_a_column_are_not_required() -> None:
    problem = find_problem(
        "fetch: {url: http://shop.test/}\npipeline:\n- {stage: extract, args: [{selector: a, method: href}]}\n"
        "- {stage: join, args: [$href, {required: true}]}"
    )
    assert (problem.line, problem.code) == (4, "conflicting-arguments")


def test_a_trial_names_selectors_that_found_nothing(site: Site) -> None:
    run, _ = start(site, EXPLORE, "{stage: join, args: [a.itm, Inner]}", TITLE)
    with open_trial(run.plan, 10) as trial:
        assert [*trial.iter_rows()] == []
        assert [*map(str, trial.list_empty_selectors())] == [
            "line 4: wgetJoin: selector a.itm found nothing on 3 of 3 pages"
        ]
