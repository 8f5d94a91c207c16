from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.pipeline_site import Site, serving
from tests.support.webhook_receiver import Receiver, receiving


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver
