"""Pages in XML on both runners and in a trial: malformed ones are named, and those that end early have failed."""

from __future__ import annotations

from pipelines.engine.options import make_fetch_options
from pipelines.extract.rows import describe_malformed
from pipelines.trial import Trial
from tests.support.fetching import LOOPBACK
from tests.support.runners import Runners
from tests.support.site import Site
from tests.support.trials import try_rows

FEED = "<rss><item><title>%s</title><link>/p?id=3&amp;v=c</link></item>%s"
PAGES = {
    "/good": FEED % ("Salt &amp; Pepper", "</rss>"),
    "/bare": FEED % ("Salt & Pepper", "</rss>"),
    "/cut": FEED % ("Salt", "<item><link>/p?id"),
    "/text": "no feed today",
}


ATOM = """<feed xmlns="http://www.w3.org/2005/Atom" xml:base="/blog/"><entry><link href="a"/>
<media:thumbnail xmlns:media="http://search.yahoo.com/mrss/" url="a.jpg"/></entry></feed>"""


def test_prefixes_and_bases_of_elements_are_obeyed(runners: Runners, site: Site) -> None:
    base = site.serve({"/atom": ATOM, "/blog/a": "<h1>A</h1>"}, {"/atom": "application/atom+xml"})
    plan = runners.plan(
        f"""
fetch: {{url: "{base}/atom"}}
pipeline:
- stage: extract
  args:
  - {{selector: media|thumbnail, method: "attr:abs:url", as: image}}
  - {{xpath: //link/@href, method: href, as: url}}
- {{stage: join, args: [entry > link]}}
- {{stage: extract, args: [{{selector: h1, as: title}}]}}
"""
    )
    wanted = [{"image": f"{base}/blog/a.jpg", "url": f"{base}/blog/a", "title": "A"}]
    assert runners.assert_equal(plan).preview == wanted
    assert try_rows(plan) == wanted


def test_xml_that_is_not_well_formed_is_repaired_and_named(runners: Runners, site: Site) -> None:
    base = site.serve(PAGES, dict.fromkeys(PAGES, "application/rss+xml"))
    plan = runners.plan(
        f"""
fetch: {{url: [{", ".join(f"{base}{path}" for path in PAGES)}]}}
pipeline:
- {{stage: extract, args: [{{selector: title, as: title}}, {{selector: link, method: href, as: url}}]}}
spindle: {{keepColumns: [_error], maxFailureRatio: 1}}
"""
    )
    outcome = runners.assert_equal(plan)
    read = {"title": "Salt & Pepper", "url": f"{base}/p?id=3&v=c", "_error": None}
    failed = {"title": None, "url": None}
    wanted = [
        read,
        read,
        failed | {"_error": "the page could not be read: its XML ends within <link>"},
        failed | {"_error": "the page could not be read: its XML has no element"},
    ]
    fault = "its XML is not well-formed and was repaired: xmlParseEntityRef: no name, line 1, column 25"
    assert outcome.preview == wanted
    assert outcome.malformed == [(1, f"{base}/bare: {fault}")]
    sentence = f"1 page is malformed: {base}/bare: {fault}"
    assert describe_malformed(*outcome.malformed[0]) == sentence
    with Trial(plan, make_fetch_options(plan.options, LOOPBACK), 100) as trial:
        tried = [{**row.values, "_error": row.fetched.error} for row in trial.iter_rows()]
    assert tried == wanted
    assert next(iter(trial.counts.values())).malformed == (1, f"{base}/bare: {fault}")
