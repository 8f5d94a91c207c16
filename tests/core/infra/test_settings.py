"""What an instance is told is checked when it starts, and refused with a sentence."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from core.infra.settings import FIELDS, Settings
from core.infra.settings_reference import build_reference


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.0/8,localhost", "10.0.0.0/8 fd00::/8"])
def test_an_invalid_network_is_refused_at_start(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SPINDLE_FETCH_ALLOW_NETWORKS", text)
    with pytest.raises(ValidationError, match=r"SPINDLE_FETCH_ALLOW_NETWORKS: '.*' is not a network"):
        Settings()


def test_networks_are_read_as_the_fetch_guard_reads_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPINDLE_FETCH_ALLOW_NETWORKS", "10.1.2.3/8, fd00::/8,127.0.0.1")
    assert Settings().fetch.allow_networks == ("10.1.2.3/8", "fd00::/8", "127.0.0.1")


@pytest.mark.parametrize("text", ["two words", "a\r\nX-Header: b", "caf\u00e9@example.com", "(x)", ""])
def test_a_contact_that_no_header_can_hold_is_refused_at_start(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SPINDLE_FETCH_CONTACT", text)
    with pytest.raises(ValidationError, match="fetch_contact"):
        Settings()


@pytest.mark.parametrize("variable", ["port", "ui_port"])
def test_a_port_where_drivers_show_spark_is_refused_at_start(variable: str) -> None:
    with pytest.raises(ValidationError, match=rf"{variable}\n.*24040 to 24539; choose another"):
        Settings(**{variable: "24100"})


@pytest.mark.parametrize("missing", ["storage", "kubernetes_image", "public_url"])
def test_kubernetes_needs_a_bucket_an_image_and_an_address(missing: str) -> None:
    needed = {"storage": "s3://bucket/prefix", "kubernetes_image": "spark:1", "public_url": "http://spindle:8080"}
    assert Settings(compute="kubernetes", **needed).drivers.compute == "kubernetes"
    given = {name: value for name, value in needed.items() if name != missing}
    with pytest.raises(ValidationError, match=f"SPINDLE_{missing.upper()}"):
        Settings(compute="kubernetes", **given)


def test_what_the_service_uses_is_no_page_for_pipelines() -> None:
    settings = Settings(s3_endpoint="http://s3:9000", trino="https://trino", spark_history_url="http://[::1]:18080/")
    assert {("s3", 9000), ("trino", 443), ("::1", 18080)} <= set(settings.own_endpoints)


def test_the_reference_has_each_setting() -> None:
    page = Path(__file__).parents[3] / "docs" / "settings.md"
    written = page.read_text()
    assert written == build_reference(), "run: python -m core.infra.settings_reference > docs/settings.md"
    unknown = set(re.findall(r"SPINDLE_[A-Z0-9_]+", written)) - {f"SPINDLE_{name.upper()}" for name in FIELDS}
    assert unknown == {f"SPINDLE_{name}" for name in ("CHROMIUM", "BROWSER_PAGES", "BROWSER_SERVICE", "JARS", "MAVEN")}
