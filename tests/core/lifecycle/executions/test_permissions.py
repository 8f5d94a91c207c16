"""What the operator forbids after an execution was accepted is refused when it is retried or launched."""

from __future__ import annotations

from dataclasses import replace

import pytest

from core.errors import Conflict, SpindleError
from core.infra.settings import Settings
from core.lifecycle.executions.reports import claim, fail
from core.lifecycle.executions.spec import load_launch_context
from core.tables import Execution
from core.tables.executions import FrozenPlugin
from tests.support.shop import Shop

SCRIPT = """\
fetch:
  url: http://a.test/
  traces:
    - {action: evaluate, params: {script: '1', as: one}}
pipeline: []
"""


def change(shop: Shop, **settings: object) -> Shop:
    return replace(shop, settings=shop.settings.replace(**settings))


def fail_one(shop: Shop) -> Execution:
    execution = shop.submit()
    claim(shop.database, execution.id, 1, "run")
    fail(shop.database, execution.id, "It broke.", 1)
    return execution


def launch(shop: Shop, execution: Execution, settings: Settings) -> None:
    with shop.database.read() as session:
        load_launch_context(session, settings, shop.storage, shop.reload(execution))


def assert_forbidden(allows: Shop, forbids: Shop, code: str, execution: Execution) -> None:
    launch(allows, execution, allows.settings)
    with pytest.raises(SpindleError) as launched:
        launch(allows, execution, forbids.settings)
    with pytest.raises(SpindleError) as retried:
        forbids.retry(execution)
    assert str(launched.value) == str(retried.value)
    assert [each.code for each in launched.value.details] == [code]
    assert allows.reload(execution).state == "FAILED"
    assert allows.reload(allows.retry(execution)).state == "PENDING"


def test_scripts_in_pages(shop: Shop) -> None:
    shop.write_pipeline(SCRIPT)
    allows = change(shop, scripts=("*",))
    execution = fail_one(allows)
    assert_forbidden(allows, shop, "script-not-allowed", execution)
    with pytest.raises(Conflict, match=r"Line \d: fetch: the action evaluate .*SPINDLE_SCRIPTS"):
        launch(shop, execution, shop.settings)


def test_parts_of_uploaded_plugins(shop: Shop) -> None:
    execution = fail_one(shop)
    with shop.database.write() as session:
        session.get_one(Execution, execution.id).plugins = [FrozenPlugin("acme", "0" * 64, "acme.whl")]
    assert_forbidden(shop, change(shop, plugin_stages=("other",)), "no-consent", execution)


def test_python_packages(shop: Shop) -> None:
    execution = fail_one(shop)
    with shop.database.write() as session:
        stored = session.get_one(Execution, execution.id)
        stored.pipeline_yaml = f"{stored.pipeline_yaml}\nspindle: {{packages: [acme==1.0]}}\n"
        stored.package_lock = "# CPython 3.11 Linux x86_64: acme==1.0\nacme==1.0\n"
    assert_forbidden(shop, change(shop, packages=("other",)), "package-not-allowed", execution)
