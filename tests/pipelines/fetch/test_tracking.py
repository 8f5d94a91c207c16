"""Addresses without tracking parameters and session ids."""

from __future__ import annotations

import pytest

from pipelines.fetch.tracking import strip_tracking


@pytest.mark.parametrize(
    ("url", "stripped"),
    [
        ("http://a.test/p", "http://a.test/p"),
        ("http://a.test/p?utm_source=x&UTM_Medium=y", "http://a.test/p"),
        ("http://a.test/p?b=2&gclid=1&a=1&a=0", "http://a.test/p?b=2&a=1&a=0"),
        ("http://a.test/p;jsessionid=A1?q=", "http://a.test/p?q="),
        ("http://a.test/p;v=1/x?PHPSESSID=9&ref=home", "http://a.test/p;v=1/x?ref=home"),
        ("http://a.test/p?sid=4&utmost=1&id=gclid", "http://a.test/p?sid=4&utmost=1&id=gclid"),
        ("http://a.test/p?", "http://a.test/p?"),
        ("http://a.test/p?session_id=5&x=1", "http://a.test/p?session_id=5&x=1"),
        ("http://a.test/p?SessionID=9f86d081884c7d65&x=1", "http://a.test/p?x=1"),
    ],
)
def test_parameters_that_tell_no_pages_apart_are_left_out(url: str, stripped: str) -> None:
    assert strip_tracking(url) == stripped


def test_significant_parameters_stay() -> None:
    assert strip_tracking("http://a.test/?utm_source=x&utm_id=1", ["utm_source"]) == "http://a.test/?utm_source=x"
