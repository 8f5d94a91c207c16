"""Python extensions of agents: checked by their text, bound to one organization, frozen for an execution."""

from __future__ import annotations

import pytest

from core.definitions.identity.organizations import create_organization, is_shared
from core.definitions.python_extensions.models import ExtensionCreate, ExtensionUpdate
from core.definitions.python_extensions.repository import PythonExtensionRepository
from core.definitions.python_extensions.validation import validate_function
from core.errors import BadInput, NotFound
from core.lifecycle.executions.spec import LaunchContext, build_spec
from tests.support.shop import Shop

CLEAN = "def clean(row, *, unit='kg') -> {'name': str}:\n    return {'name': row['name'] + unit}\n"
PIPELINE = """
fetch: {url: "http://127.0.0.1/"}
pipeline:
  - {stage: extract, args: [{selector: h1, as: name}]}
  - {stage: "python_row_transform:clean"}
"""


def create(shop: Shop, name: str = "clean", source: str = CLEAN) -> str:
    with shop.database.write() as session:
        extensions = PythonExtensionRepository(session, shop.organization_id)
        return extensions.create(shop.agent_id, ExtensionCreate(name=name, source=source)).id


def test_an_execution_keeps_the_functions_that_it_was_submitted_with(shop: Shop) -> None:
    shop.write_pipeline(PIPELINE)
    extension_id = create(shop)
    execution = shop.submit()
    with shop.database.write() as session:
        PythonExtensionRepository(session, shop.organization_id).update(
            extension_id, ExtensionUpdate(source=CLEAN.replace("kg", "g"))
        )
    spec = build_spec(shop.settings, shop.storage, execution, LaunchContext(is_shared=False))
    assert (spec.row_transforms, spec.isolate_transforms) == ({"clean": CLEAN}, False)


def test_extensions_go_with_their_agent_and_belong_to_one_organization(shop: Shop) -> None:
    extension_id = create(shop)
    with shop.database.write() as session:
        other = create_organization(session, "Other").id
        assert is_shared(session)
        for call in (
            lambda: PythonExtensionRepository(session, other).get(extension_id),
            lambda: PythonExtensionRepository(session, other).list_of_agent(shop.agent_id),
            lambda: PythonExtensionRepository(session, other).create(shop.agent_id, ExtensionCreate(source=CLEAN)),
            lambda: PythonExtensionRepository(session, other).delete(extension_id),
        ):
            with pytest.raises(NotFound):
                call()
        PythonExtensionRepository(session, shop.organization_id).delete(extension_id)
        assert PythonExtensionRepository(session, shop.organization_id).list_of_agent(shop.agent_id) == []


WRONG = [
    ("async def clean(row): ...\n", "without async"),
    ("def clean(row) -> {'a': complex}: ...\n", "line 1: the type of 'a' fits no column"),
    ("def clean(row) -> Other: ...\n", "line 1: clean must return a row"),
    ("def clean(row, other, /): ...\n", "must take all but the row by name"),
    ("x = " + "(" * 50_000, "not Python"),
    (f"def clean(row) -> {{'a': int{' | None' * 1500}}}: ...\n", "nested too deep"),
]


@pytest.mark.parametrize(("source", "message"), WRONG)
def test_a_text_that_cannot_be_used_is_refused_with_its_line(source: str, message: str) -> None:
    with pytest.raises(BadInput) as refused:
        validate_function(source, "clean")
    (detail,) = refused.value.details
    assert message in detail.message
