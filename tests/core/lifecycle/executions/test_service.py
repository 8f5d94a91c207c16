from __future__ import annotations

import pytest

from core.definitions.identity.api_keys import Identity
from core.errors import BadInput
from core.infra.encryption import KeyRing
from core.infra.secrets import load_service_key
from core.lifecycle.executions.service import ExecutionService
from core.tables import Execution
from tests.support.shop import Shop

PIPELINE = """\
fetch: {url: "http://127.0.0.1/${CITY}"}
pipeline:
  - {stage: extract, args: [{selector: h1, method: text, as: title}]}
"""


def submit(shop: Shop, *allowed: str) -> Execution:
    settings = shop.settings.model_copy(update={"parameter_environment": allowed})
    executions = ExecutionService(shop.database, settings, shop.storage)
    caller = Identity(shop.organization_id, "key", frozenset())
    return executions.submit(caller, shop.project_id, shop.job_id, key_ring=KeyRing(load_service_key(settings)))


def test_pipelines_get_the_allowed_environment_variables(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITY", "rome")
    shop.write_pipeline(PIPELINE)
    assert submit(shop, "CITY").parameters == {"CITY": "rome"}
    with pytest.raises(BadInput):
        submit(shop, "ANOTHER")


def test_an_execution_stores_the_steps_of_its_plan(shop: Shop) -> None:
    steps = shop.reload(submit(shop)).steps
    assert [(step["title"], step["position"]) for step in steps][1] == ("extract title", "pass 1, line 3")
    assert [step["key"] for step in steps] == ["s01_fetch", "s02_extract", "s03_output"]
