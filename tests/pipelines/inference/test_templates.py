"""Templates: stable over runs and tasks, and cheap."""

from __future__ import annotations

from random import Random

from pipelines.inference.templates import Templates, get_features
from tests.support.pages import document
from tests.support.templates import TEMPLATES, make_pages


def test_mixed_pages_are_put_into_their_templates() -> None:
    pages = [(name, page) for name in TEMPLATES for page in make_pages(name, 20)]
    Random(1).shuffle(pages)
    templates, found = Templates(), dict[str, set[str]]()
    for name, page in pages:
        found.setdefault(name, set()).add(templates.assign(get_features(document(page.html))))
    assert all(len(names) == 1 for names in found.values()), found
    assert len({*map(frozenset, found.values())}) == len(TEMPLATES)


def test_a_later_run_finds_the_templates_that_are_stored() -> None:
    first = Templates()
    features = {name: get_features(document(make_pages(name, 1)[0].html)) for name in TEMPLATES}
    stored = {first.assign(each): each for each in features.values()}
    later = Templates(stored)
    for name in reversed([*TEMPLATES]):
        page = make_pages(name, 1, start=77)[0]
        assert later.assign(get_features(document(page.html))) == first.assign(features[name])


def test_renamed_classes_are_the_same_template() -> None:
    (page,) = make_pages("classes", 1)
    renamed = page.html.replace('class="', 'class="new-')
    assert get_features(document(page.html)) == get_features(document(renamed))


def test_pages_without_elements_have_no_features() -> None:
    assert get_features(document("{}", content_type="application/json")) == ()
    assert Templates().assign(()) == Templates().assign(())
