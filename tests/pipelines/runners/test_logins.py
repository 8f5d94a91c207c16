"""A recorded login on both runners and in a trial: its pages, its end, and what nobody may see of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.client import ClientError
from cli.login import read_login, record_state
from cli.recorded_pages import RecordedPages
from cli.recording import get_archive, record
from cli.recording import test as run_test
from cli.trial import TrialOptions, try_file
from pipelines.browser.model import BrowserOptions, NoBrowser
from pipelines.errors import RunError
from pipelines.fetch.failures import FailureReason, find_reason
from pipelines.login import LOGIN_VARIABLE, Login, add_signs
from tests.support.runners import Runners
from tests.support.scripted_site import ScriptedSite, serve_scripted_site

EXAMPLE = Path(__file__).parents[3] / "examples/member-prices.yaml"
BY_HTTP = """
fetch: {url: "${SHOP}/members"}
pipeline: [{stage: extract, args: [{selector: a.offer, as: offer}, {selector: h1, as: title}]}]
spindle: {login: shop, maxFailureRatio: 1, keepColumns: [_url, _error]}
"""


@pytest.fixture
def club(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedSite]:
    with serve_scripted_site() as club:
        monkeypatch.setenv(LOGIN_VARIABLE, add_signs(club.state, None, None))
        yield club


@pytest.mark.long
def test_the_example_reads_pages_for_members_on_both_runners(
    runners: Runners, club: ScriptedSite, capsys: pytest.CaptureFixture[str]
) -> None:
    outcome = runners.assert_equal(runners.plan(EXAMPLE.read_text(), SHOP=club.url))
    assert outcome.preview == [{"product": "Lamp", "price": 2.5}]
    assert try_file(EXAMPLE, TrialOptions({"SHOP": club.url}, False, 10, 10, None)) == 0
    assert json.loads(capsys.readouterr().out) == {"product": "Lamp", "price": 2.5}


@pytest.mark.parametrize("signs", [{}, {"address": "/login"}, {"selector": "input[name=p]"}])
def test_a_login_that_has_ended_is_a_failure_and_no_row_of_the_login_page(
    runners: Runners, club: ScriptedSite, monkeypatch: pytest.MonkeyPatch, signs: dict[str, str]
) -> None:
    monkeypatch.setenv(LOGIN_VARIABLE, add_signs(club.state, signs.get("selector"), signs.get("address")))
    plan = runners.plan(BY_HTTP, SHOP=club.url)
    assert [row["offer"] for row in runners.run_locally(plan).preview] == ["offer"]
    club.session = "session-of-tomorrow"
    outcome = runners.assert_equal(plan) if not signs else runners.run_locally(plan)
    [row] = outcome.preview
    assert (row["title"], row["_url"]) == (None, f"{club.url}/login")
    assert row["_error"].startswith("logged out: the site asks for a login")
    assert find_reason(None, row["_error"]) is FailureReason.LOGGED_OUT


@pytest.mark.long
def test_an_ended_login_is_seen_where_json_is_captured(runners: Runners, club: ScriptedSite) -> None:
    traces = "[{action: capture, params: {url: /api/, timeout: 0.2}}]"
    text = BY_HTTP.replace("{url:", "{traces: " + traces + ", url:", 1)
    club.session = "session-of-tomorrow"
    [row] = runners.run_locally(runners.plan(text, SHOP=club.url)).preview
    assert row["_error"].startswith("logged out: ")


def test_a_recorded_test_has_nothing_of_the_login_and_needs_none(
    club: ScriptedSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "members.yaml"
    file.write_text(BY_HTTP.replace("${SHOP}", club.url))
    secret = club.session
    club.pages["/echo"] = ""
    assert record(file, TrialOptions({}, False, 0, 30, None)) == 0
    pages = RecordedPages.load(get_archive(file))
    assert pages.count
    assert secret not in repr([page for _, page in pages._list_pages()])  # pyright: ignore[reportPrivateUsage]
    monkeypatch.delenv(LOGIN_VARIABLE)
    assert run_test(file, TrialOptions({}, False, 0, 0, None), update=False) == 0


def test_a_login_that_is_not_there_or_not_one_is_said(
    runners: Runners, club: ScriptedSite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = runners.plan(BY_HTTP, SHOP=club.url)
    for value, sentence in (
        ("", "the login 'shop' is not here"),
        (str(tmp_path / "none"), "names a file that cannot be read"),
        ('{"cookies": []}', "nobody was logged in"),
        (
            '{"cookies": [{"name": "sid", "value": "se\\tcret"}]}',
            "a cookie of a login has name, value, domain and path",
        ),
        (add_signs(club.state, "a[", None), "'loggedOut' of a login cannot be used"),
    ):
        monkeypatch.setenv(LOGIN_VARIABLE, value)
        with pytest.raises(RunError, match=sentence) as caught:
            runners.run_locally(plan)
        assert "se\tcret" not in str(caught.value)


@pytest.mark.long
def test_a_browser_keeps_what_a_login_has_left(club: ScriptedSite) -> None:
    state = record_state(BrowserOptions().find_executable(), f"{club.url}/enter", lambda: None, headless=True)
    [line] = Login.from_json(add_signs(state, None, "/login")).cookies
    assert line.endswith(f"\tsid\t{club.session}")


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A display for windows: that of the machine, or one of Xvfb."""
    if os.environ.get("DISPLAY"):
        yield
    elif server := shutil.which("Xvfb"):
        reading, writing = os.pipe()
        flags = ["-displayfd", str(writing), "-screen", "0", "1280x900x24"]
        with subprocess.Popen([server, *flags], pass_fds=[writing], stderr=subprocess.DEVNULL) as running:
            os.close(writing)
            with os.fdopen(reading) as number:
                monkeypatch.setenv("DISPLAY", f":{number.readline().strip()}")
                yield
            running.terminate()
    else:
        pytest.skip("there is no display, and no Xvfb to make one (apt-get install xvfb)")


@pytest.mark.long
@pytest.mark.usefixtures("display")
def test_a_login_is_recorded_in_a_window(club: ScriptedSite) -> None:
    try:
        path = BrowserOptions().find_executable(shows_windows=True)
    except NoBrowser as error:
        pytest.skip(str(error))
    assert "headless" not in path
    login = Login.from_json(read_login(f"{club.url}/enter", None, (None, None), lambda: None))
    assert login.cookies[0].endswith(f"\tsid\t{club.session}")


def test_a_browser_without_windows_records_no_login(club: ScriptedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SPINDLE_CHROMIUM", "/usr/bin/chromium-headless-shell")
    with pytest.raises(ClientError, match="shows no windows"):
        read_login(club.url, None, (None, None), lambda: None)


def test_without_a_display_a_state_file_is_asked_for(
    club: ScriptedSite, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ClientError, match=r"There is no display .* --state FILE"):
        read_login(club.url, None, (None, None), lambda: None)
    state = tmp_path / "state.json"
    state.write_text(json.dumps(club.state))
    login = Login.from_json(read_login(club.url, state, ("form#login", None), lambda: None))
    assert (len(login.cookies), login.signs.selector) == (1, "form#login")
    assert club.session not in repr(login)
