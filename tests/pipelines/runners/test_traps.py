"""maxPerTemplate bounds calendars, facets and circles on both runners and in a trial, and says which."""

from __future__ import annotations

import pytest

from pipelines.engine import segment
from pipelines.engine.frontier import describe_bounded
from pipelines.fetch.address_templates import get_template
from tests.support.cases import each_case
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import open_trial

EXPLORE = """
fetch: {url: "${B}/"}
pipeline:
  - {stage: explore, args: [a, {depth: 30, maxPerTemplate: 3}]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""
SITE = {
    "/": "<h1>start</h1><a href=/about>a</a><a href=/day/1>1</a><a href='/list?color=0'>l</a><a href=/loop>o</a>",
    "/about": "<h1>about</h1><a href=/contact>c</a>",
    "/contact": "<h1>contact</h1><a href=/day/9>9</a>",
    **{f"/day/{n}": f"<h1>{n}</h1><a href=/day/{n + 1}>n</a><a href=/day/{max(n - 1, 1)}>p</a>" for n in range(1, 12)},
    **{f"/list?color={n}": f"<h1>c{n}</h1><a href='/list?color={n + 1}&amp;size=1'>n</a>" for n in range(9)},
    **{
        f"/list?color={n}&size=1": f"<h1>s{n}</h1>{''.join(f'<a href=/list?color={k}>k</a>' for k in range(9))}"
        for n in range(9)
    },
    **{f"{'/loop' * n}": f"<h1>loop{n}</h1><a href={'/loop' * (n + 1)}>n</a>" for n in range(1, 9)},
}
TITLES = ["start", "about", "1", "c0", "loop1", "contact", "2", "s1", "loop2", "9", "c1", "c2", "loop3", "s2", "s3"]


@pytest.mark.parametrize("frontier", [1_000, pytest.param(0, marks=pytest.mark.long)])
def test_traps_are_bounded_alike(runners: Runners, site: Site, monkeypatch: pytest.MonkeyPatch, frontier: int) -> None:
    monkeypatch.setattr(segment, "FRONTIER", frontier)
    base = site.serve(SITE)
    plan = runners.plan(EXPLORE, B=base)
    outcome = runners.assert_equal(plan)
    assert sorted(outcome.ordered) == sorted(repr({"title": each}) for each in TITLES)
    assert [name.removeprefix(base.partition("//")[2]) for name in outcome.bounded] == [
        "/day/*",
        "/list?color",
        "/loop",
    ]
    with open_trial(plan) as trial:
        assert {row.values["title"] for row in trial.iter_rows()} == set(TITLES)
        step = trial.steps[1]
        sentence = describe_bounded(step, trial.counts[step.key].bounded)
    assert "/day/*" in sentence
    assert sentence.endswith("/loop: 3 pages kept of more, by maxPerTemplate in line 4")


@each_case(
    ("url", "template"),
    [
        ("https://a.test/", "a.test/"),
        ("https://a.test/calendar/2026/11/28", "a.test/calendar/*/*/*"),
        ("https://a.test/calendar/november-2026", "a.test/calendar/*"),
        ("https://a.test:81/p/blue-lamp", "a.test:81/p/blue-lamp"),
        ("https://a.test/a/b/a/b/a", "a.test/a/b"),
        ("https://a.test/list?size=2&color=red&color=blue", "a.test/list?color&size"),
        ("https://a.test/list?f[0]=a&f[1]=b&f[12]=c", "a.test/list?f[*]"),
        ("https://a.test/list?a=1&b=2&c=3", "a.test/list?*"),
    ],
)
def test_templates_of_addresses(url: str, template: str) -> None:
    assert get_template(url) == template
