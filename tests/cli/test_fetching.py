"""The contact of the operator in the User-Agent of `spindle run` and `spindle try`."""

from __future__ import annotations

import pytest

from cli.fetching import read_crawl_options
from cli.trial import TrialOptions
from pipelines.errors import RunError
from pipelines.fetch.fetcher import USER_AGENT

TEXT = "fetch: {url: 'http://shop.test/'}\npipeline: [{stage: extract, args: [{selector: h1, as: title}]}]\n"


def test_the_contact_is_sent_unless_the_pipeline_has_a_user_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPINDLE_FETCH_CONTACT", raising=False)
    assert read_crawl_options().user_agent == USER_AGENT
    monkeypatch.setenv("SPINDLE_FETCH_CONTACT", "ops@example.com")
    options = TrialOptions({}, True, 5, 5, None)
    trial = options.create_trial(TEXT)
    assert trial._options.user_agent == f"{USER_AGENT} (+ops@example.com)"  # pyright: ignore[reportPrivateUsage]
    own = options.create_trial(f"{TEXT}spindle: {{userAgent: mine}}\n")
    assert own._options.user_agent == "mine"  # pyright: ignore[reportPrivateUsage]


def test_a_contact_that_cannot_be_sent_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_FETCH_CONTACT", "ops\r\nX: y")
    with pytest.raises(RunError, match="SPINDLE_FETCH_CONTACT"):
        read_crawl_options()
