"""Whether a driver with Spark serves other executions too: the service, the project and the job must agree."""

from __future__ import annotations

from dataclasses import replace

from core.lifecycle.executions.spec import build_spec
from core.tables import Execution
from tests.support.shop import Shop


def allow(shop: Shop, *, job: bool, project: bool) -> None:
    shop.change_job(driver_reuse=job)
    shop.change_project(driver_reuse=project)


def reuses_driver(shop: Shop, execution: Execution) -> bool:
    return build_spec(shop.settings, shop.storage, shop.reload(execution)).reuses_driver


def test_a_project_or_a_job_turns_the_reuse_of_drivers_off(shop: Shop) -> None:
    found: list[bool] = []
    for job, project in ((True, True), (False, True), (True, False), (False, False)):
        allow(shop, job=job, project=project)
        found.append(reuses_driver(shop, shop.submit()))
    assert found == [True, False, False, False]


def test_an_execution_keeps_what_held_when_it_was_accepted(shop: Shop) -> None:
    execution = shop.submit()
    allow(shop, job=False, project=True)
    assert reuses_driver(shop, execution)
    without = replace(shop, settings=shop.settings.replace(driver_reuse=False))
    assert not reuses_driver(without, execution)
