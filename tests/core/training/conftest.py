from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.ai_providers import AiProviders, serve_ai_providers


@pytest.fixture
def providers() -> Iterator[AiProviders]:
    with serve_ai_providers() as providers:
        yield providers
