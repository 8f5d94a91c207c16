"""Links, segments and tables that a prompt names, with and without a language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from pipelines.stages.intelligent_lists import is_selector
from tests.support.models import Json, ModelServer, Rule, answer_truth
from tests.support.pipelines import TITLE, crawl
from tests.support.runners import Outcome, Runners
from tests.support.site import Site
from tests.support.templates import GeneratedPage, get_truth, make_listing, make_pages

KEPT = "keepColumns: [_error]"
NAMES = "{stage: flatSelect, args: [ul.list li, [{selector: a, as: name}]]}"


def answer_items(choose: Callable[[str], Sequence[tuple[str, str | None]]], otherwise: Rule | None = None) -> Rule:
    """Return a rule that names the texts and addresses of the items that it finds in a page's text."""

    def answer(task: str, data: Json, schema: Json) -> object:
        if "pages" not in schema["properties"]:
            return {name: [] for name in schema["properties"]}
        content = schema["properties"]["pages"]["items"]["properties"]["content"]
        if content["type"] != "array" and otherwise:
            return otherwise(task, data, schema)
        pages = (
            (page["page"], [{"text": text, "address": address} for text, address in choose(page["text"])])
            for page in data["pages"]
        )
        return {"pages": [{"page": number, "content": items} for number, items in pages]}

    return answer


def serve_lists(site: Site, count: int = 7) -> tuple[str, list[list[GeneratedPage]]]:
    """Serve lists of products that name the next list in words only."""
    lists = [make_pages("classes", 3, 10 + 3 * number) for number in range(count)]
    pages = {page.path: page.html for each in lists for page in each}
    for number, each in enumerate(lists):
        more = f"<p class=pager><a class=forward href=/list/{number + 1}>Forward</a></p>" if number + 1 < count else ""
        pages[f"/list/{number}"] = make_listing(*each).replace("</ul>", f"</ul>{more}")
    return site.serve(pages), lists


def find_forward(text: str) -> Sequence[tuple[str, str | None]]:
    line = next((line for line in text.splitlines() if line.endswith("Forward")), None)
    return [("Forward", line.partition("<")[2].partition(">")[0])] if line else []


@pytest.mark.long
def test_links_of_the_main_list(runners: Runners, site: Site) -> None:
    base, lists = serve_lists(site)
    plan = runners.plan(crawl(f"{base}/list/0", "{stage: intelligentJoin, args: [auto, none, 2]}", TITLE))
    assert plan.warnings == ()
    outcome = runners.assert_equal(plan)
    assert [row["title"] for row in outcome.preview] == [page.values["title"] for page in lists[0][:2]]


def test_rel_next_is_followed_without_a_model(runners: Runners, site: Site) -> None:
    base, lists = serve_lists(site, 3)
    for number in range(3):
        page = str(site.pages[f"/list/{number}"]).replace("<a class=forward", "<a rel=next")
        site.pages[f"/list/{number}"] = page.replace("</ul>", "</ul><a rel=prev href=/list/0>Back</a>")
    text = crawl(f"{base}/list/0", "{stage: intelligentExplore, args: [the next page, 9]}", NAMES, options=KEPT)
    outcome = runners.assert_equal(runners.plan(text))
    wanted = [page.values["title"] for each in lists for page in each]
    assert [row["name"] for row in outcome.preview] == wanted
    assert {row["_error"] for row in outcome.preview} == {None}


def test_links_that_a_prompt_names_are_inferred_once(runners: Runners, site: Site, server: ModelServer) -> None:
    base, lists = serve_lists(site)
    server.rule = answer_items(
        lambda page: [(line.rpartition("> ")[2], None) for line in page.splitlines() if "no." in line]
    )
    text = (
        f"fetch: {{url: ['{base}/list/0', '{base}/list/1', '{base}/list/2', '{base}/list/3']}}\npipeline:\n"
        "- {stage: intelligentJoin, args: [the products]}\n- {stage: extract, args: [{selector: h1, as: title}]}\n"
        "spindle: {keepColumns: [_error], model: {maxCalls: 50}}"
    )
    outcome = runners.assert_equal(runners.plan(text))
    titles = [page.values["title"] for each in lists[:4] for page in each]
    assert [row["title"] for row in outcome.preview] == titles
    assert 0 < len(server.requests) <= 4 * 5


@pytest.mark.parametrize("count", [4, 18], ids=["that the model names", "of which the model names the first ten"])
def test_links_of_a_single_page(count: int, runners: Runners, site: Site, server: ModelServer) -> None:
    pages = make_pages("classes", count, 10)
    about = "<p><a class=other href=/about>About us</a></p>"
    listing = make_listing(*pages).replace("</ul>", f"</ul>{about}")
    base = site.serve({page.path: page.html for page in pages} | {"/": listing, "/about": "<h1>About</h1>"})
    server.rule = answer_items(
        lambda page: [(line.rpartition("> ")[2], None) for line in page.splitlines() if "no." in line][:10]
    )
    text = crawl(f"{base}/", "{stage: intelligentJoin, args: [the products]}", TITLE, options=KEPT)
    outcome = runners.assert_equal(runners.plan(text))
    wanted = [{"title": page.values["title"], "_error": None} for page in pages]
    assert [*outcome.preview] == wanted
    assert len(server.requests) == 2  # a call of each runner


def test_a_link_that_the_page_does_not_have_is_an_error(runners: Runners, site: Site, server: ModelServer) -> None:
    base = site.serve({"/": "<a href=/one>One</a><a href=/two>Two</a>", "/one": "<h1>First</h1>"})
    server.rule = answer_items(lambda _: [("One", None), ("Three", None)])
    text = crawl(f"{base}/", "{stage: intelligentJoin, args: [the first]}", TITLE, options=KEPT)
    outcome = runners.run_locally(runners.plan(text))
    assert [row["title"] for row in outcome.preview] == [None, "First"]
    assert outcome.preview[0]["_error"] == "the page does not have 1 of the first items that the model named"


@pytest.mark.long
def test_pages_that_arrive_one_after_another_prove_selectors(
    runners: Runners, site: Site, server: ModelServer, tmp_path: object
) -> None:
    runners.selectors = f"{tmp_path}/selectors"
    base, lists = serve_lists(site)
    about = "<header><div><h2>Shop</h2><p>Since <b>1999</b></p></div></header><dl><dt>Open</dt><dd>Always</dd></dl>"
    for number in range(len(lists)):  # so the last list, without a link, is of the template of the others
        site.pages[f"/list/{number}"] = f"{site.pages[f'/list/{number}']}{about}"
    server.rule = answer_items(find_forward)
    explore = "{stage: intelligentExplore, args: [the list that follows, 9]}"
    plan = runners.plan(crawl(f"{base}/list/0", explore, NAMES, options=KEPT))
    outcome = runners.run_locally(plan)
    wanted = [{"name": page.values["title"], "_error": None} for each in lists for page in each]
    assert [*outcome.preview] == wanted[:20]
    assert len(server.requests) <= 5
    server.requests.clear()
    runners.assert_same(outcome, runners.run_on_spark(plan))
    assert server.requests == []


@pytest.mark.long
def test_an_explore_goes_on_when_its_links_are_known(
    runners: Runners, site: Site, server: ModelServer, tmp_path: object
) -> None:
    runners.selectors = f"{tmp_path}/selectors"
    base, lists = serve_lists(site)
    server.rule = answer_items(find_forward)
    starts = ", ".join(f"'{base}/list/{number}'" for number in (0, 2, 4, 5))
    text = (
        f"fetch: {{url: [{starts}]}}\npipeline:\n- {{stage: intelligentExplore, args: [the list that follows, 9]}}\n"
        "- {stage: flatSelect, args: [ul.list li, [{selector: a, as: name}]]}\nspindle: {model: {maxCalls: 50}}"
    )
    plan = runners.plan(text)
    outcome = runners.run_locally(plan)
    names = {row["name"] for row in outcome.preview}
    assert names <= {page.values["title"] for each in lists for page in each}
    assert outcome.requests is not None
    assert sum(path.startswith("/list/") for path in outcome.requests) == len(lists)
    runners.assert_same(outcome, runners.run_on_spark(plan))


@pytest.mark.parametrize("named", ["ul.list li", "auto", "each product of the list"])
def test_segments_with_the_columns_of_a_prompt(named: str, runners: Runners, site: Site, server: ModelServer) -> None:
    pages = make_pages("classes", 8, 10)
    cards = [
        f"<li class=card><b class=name>{page.values['title']}</b><i class=cost>{page.values['price']}</i></li>"
        for page in pages
    ]
    lists = {f"/{n}": f"<h1>List {n}</h1><ul class=list>{''.join(cards[2 * n : 2 * n + 2])}</ul>" for n in range(4)}
    base = site.serve(lists)
    titles = {page.values["title"] for page in pages}
    server.rule = answer_items(
        lambda text: [(title, None) for title in sorted(titles) if title in text], answer_truth(get_truth(*pages))
    )
    urls = ", ".join(f"'{base}{path}'" for path in lists)
    text = (
        f"fetch: {{url: [{urls}]}}\npipeline:\n"
        f"- {{stage: intelligent_flatSelect, args: ['{named}', 'Extract: title, price', p_]}}\n"
        "spindle: {model: {maxCalls: 50}}"
    )
    outcome = runners.assert_equal(runners.plan(text))
    assert [*outcome.preview] == [{"p_title": page.values["title"], "p_price": page.values["price"]} for page in pages]


def test_lines_of_the_table_that_a_prompt_names(runners: Runners, site: Site) -> None:
    long = "<table><tr><th>Year</th><th>Name</th></tr><tr><td>1</td></tr><tr><td>2</td></tr><tr><td>3</td></tr></table>"
    prices = "<table><tr><th>Size</th><th>Price in EUR</th></tr><tr><td>S</td><td>5</td></tr></table>"
    base = site.serve({"/": long + prices})
    text = f"fetch: {{url: '{base}/'}}\npipeline:\n- {{stage: intelligent_table, args: [the prices by size]}}"
    outcome = runners.assert_equal(runners.plan(text))
    assert [*outcome.preview] == [{"Size": "S", "Price_in_EUR": "5"}]


def test_pages_without_a_table_keep_their_rows(runners: Runners, site: Site) -> None:
    base = site.serve({"/": "<p>Nothing to see</p>"})
    outcome = runners.assert_equal(runners.plan(crawl(f"{base}/", "{stage: intelligent_table, args: []}")))
    assert [*outcome.preview] == [{"text": None, "link": None}]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [("li.product", True), ("table tr", True), ("div > p", True), ("each product card", False), ("a list", False)],
)
def test_a_selector_is_not_a_prompt(text: str, wanted: bool) -> None:
    assert is_selector(text) is wanted


def serve_cards(site: Site, pages: Sequence[GeneratedPage], price: str) -> str:
    """Serve lists of three products each, with this element for the price, and return their addresses."""
    cards = [
        f"<li class=card><b class=name>{page.values['title']}</b>{price.format(page.values['price'])}</li>"
        for page in pages
    ]
    lists = {f"/{n}": f"<h1>List {n}</h1><ul class=list>{''.join(cards[3 * n : 3 * n + 3])}</ul>" for n in range(8)}
    base = site.serve(lists)
    return ", ".join(f"'{base}{path}'" for path in lists)


@pytest.mark.parametrize("on_spark", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_list_that_has_changed_is_repaired_or_reported(
    runners: Runners, site: Site, server: ModelServer, tmp_path: object, on_spark: bool
) -> None:
    runners.selectors = f"{tmp_path}/selectors"
    pages = make_pages("classes", 24, 10)
    server.rule = answer_items(lambda text: (), answer_truth(get_truth(*pages)))
    rows = [{"title": page.values["title"], "price": page.values["price"], "_error": None} for page in pages]

    def run(price: str) -> Outcome:
        server.requests.clear()
        text = (
            f"fetch: {{url: [{serve_cards(site, pages, price)}]}}\npipeline:\n"
            "- {stage: intelligentFlatSelect, args: [ul.list li, 'Extract: title, price']}\n"
            "spindle: {keepColumns: [_error], cache: 0, model: {provider: OPENAI, maxCalls: 30}}"
        )
        plan = runners.plan(text)
        return (runners.run_on_spark if on_spark else runners.run_locally)(plan)

    assert sorted(map(str, run("<i class=cost>{}</i>").preview)) == sorted(map(str, rows[:20]))
    assert 0 < len(server.requests) <= 5
    changed = run("<i class=amount>{}</i>")
    assert (changed.failure, changed.stored and changed.stored.total()) == (None, 24)
    assert {row["_error"] for row in changed.preview} == {None}
    assert {row["price"] for row in changed.preview} <= {row["price"] for row in rows}
    assert [field for field, _ in changed.drift] == ["price"]
    gone = run("")
    assert (gone.failure, gone.drift) == (None, [("price", "nulls")])
    assert {row["_error"] for row in gone.preview} == {
        "the value of 'price' is doubtful: it is not as it was before on this site"
    }
