"""The attempts that run, as the runs of one process see them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from core.errors import Unavailable
from core.infra.database import open_database
from core.lifecycle.executions import reports
from orchestration import running_attempts
from orchestration.running_attempts import RunningAttempts
from tests.support.shop import Shop


@pytest.fixture
def attempts(shop: Shop) -> Iterator[RunningAttempts]:
    with closing(open_database(shop.settings)) as database:  # another process than the API's
        yield RunningAttempts(database)


def test_a_cancel_is_noticed_with_its_commit(
    shop: Shop, attempts: RunningAttempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_attempts, "_REST_SECONDS", 600)
    execution = shop.submit()
    assert attempts.is_running(execution.id, 1) is False, "no run has claimed it"
    reports.claim(shop.database, execution.id, 1, "run")
    assert attempts.is_running(execution.id, 1) is True
    assert attempts.is_running(execution.id, 2) is False
    reports.cancel(shop.database, shop.organization_id, execution.id, "It was cancelled.")
    assert attempts.is_running(execution.id, 1) is False


def test_nothing_is_known_while_the_database_is_away(
    shop: Shop, attempts: RunningAttempts, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = shop.submit()
    reports.claim(shop.database, execution.id, 1, "run")
    with monkeypatch.context() as patched:
        patched.setattr(attempts._database, "read", _refuse)
        assert attempts.is_running(execution.id, 1) is None
    assert attempts.is_running(execution.id, 1) is True


def _refuse() -> None:
    raise Unavailable("The database is away.")
