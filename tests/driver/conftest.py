from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.site import Site, serve_site
from tests.support.webhook_receiver import Receiver, receive_webhooks


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serve_site() as site:
        yield site


@pytest.fixture(scope="module")
def receiver() -> Iterator[Receiver]:
    with receive_webhooks() as receiver:
        yield receiver
