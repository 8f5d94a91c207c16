"""People in Chromium: sign-in by a real provider, roles, keys, removal and the audit log."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from api.kit.auth import CONSOLE_HEADER
from tests.browser.test_console import url_of
from tests.support.api import BASE, Api, Server, start_server
from tests.support.oidc_provider import OidcProvider
from tests.support.walk import Walk

GROUPS = "readers=default:viewer,makers=default:editor,chiefs=default:admin,newcomers=default,others=rival:admin"
pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def office(provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with start_server(tmp_path_factory.mktemp("office"), **provider.settings(oidc_groups=GROUPS)) as server:
        yield server


@pytest.fixture(scope="module")
def admin(office: Server) -> Api:
    return office.administrator()


def sign_in(walk: Walk, office: Server, provider: OidcProvider, subject: str, *groups: str) -> Page:
    provider.set_person(subject, *groups)
    page = walk.page
    page.goto(f"{url_of(office)}/console")
    page.get_by_role("link", name="Sign in with your account").click()
    page.locator("input[name=sub]").fill(subject)
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("heading", name="Running now")).to_be_visible()
    return page


def post(page: Page, path: str) -> int:
    """Do as a button would, though the page shows none; the status."""
    script = "([path, header]) => fetch(path, {method: 'POST', headers: {[header]: '1'}}).then(answer => answer.status)"
    return page.evaluate(script, [BASE + path, CONSOLE_HEADER])


def test_a_viewer_reads_and_nothing_else_until_removed(
    office: Server, provider: OidcProvider, admin: Api, open_walk: Callable[..., Walk]
) -> None:
    job = admin.job("watched")
    walk = open_walk()
    walk.page.goto(f"{url_of(office)}/console")
    walk.look("sign_in_by_provider")
    page = sign_in(walk, office, provider, "rita", "readers")
    page.get_by_role("link", name="watched").first.click()
    page.get_by_role("link", name="watched", exact=True).last.click()
    expect(page.get_by_role("heading", name="watched")).to_be_visible()
    expect(page.get_by_role("button", name="Execute")).to_have_count(0)
    assert post(page, f"{job.path}/execute") == 403
    expect(page.get_by_role("link", name="People")).to_have_count(0)
    page.goto(f"{url_of(office)}/console/people")
    expect(page.get_by_role("heading", name="This key may not do that")).to_be_visible()
    person = next(each["id"] for each in admin.get("/auth/people") if each["name"] == "Rita")
    admin.call("DELETE", f"/auth/people/{person}")
    page.goto(f"{url_of(office)}/console")
    page.get_by_role("link", name="Sign in with your account").click()
    page.locator("input[name=sub]").fill("rita")
    page.get_by_role("button", name="Authorize").click()
    expect(page.get_by_role("alert").get_by_text("removed you")).to_be_visible()
    walk.look("removed")


def test_an_admin_manages_people_and_keys_by_keyboard(
    office: Server, provider: OidcProvider, admin: Api, open_walk: Callable[..., Walk]
) -> None:
    newcomer = sign_in(open_walk(), office, provider, "nina", "newcomers")
    walk = open_walk()
    page = sign_in(walk, office, provider, "carl", "chiefs")
    page.get_by_role("link", name="Keys").click()
    form = page.locator("section", has=page.get_by_role("heading", name="Your keys"))
    expect(form.get_by_role("button", name="Make a key")).to_be_enabled()
    form.get_by_label("Name").fill("Notebook <b>")
    page.keyboard.press("Enter")
    secret = form.get_by_role("status").locator("code").text_content() or ""
    assert secret.startswith("sk_")
    walk.look("keys")
    me = {"X-API-Key": secret}
    assert office.client.get(f"{BASE}/auth/people/me", headers=me).json()["name"] == "Carl"
    page.reload()
    assert secret not in page.content()
    page.on("dialog", lambda dialog: dialog.accept())
    form.get_by_role("button", name="Revoke Notebook <b>").press("Enter")
    expect(form.get_by_text("revoked")).to_be_visible()
    assert office.client.get(f"{BASE}/auth/people/me", headers=me).status_code == 401
    page.get_by_role("link", name="People").click()
    walk.look("people")
    expect(page.get_by_label("Role of Carl")).to_have_count(0)  # groups decide it
    page.get_by_label("Role of Nina").select_option("editor")
    with page.expect_event("load"):  # the list has the value before it is stored
        page.get_by_role("row", name="Nina").get_by_role("button", name="Change").press("Enter")
    expect(page.get_by_label("Role of Nina")).to_have_value("editor")
    newcomer.goto(f"{url_of(office)}/console/agents")
    expect(newcomer.get_by_role("heading", name="Sign in")).to_be_visible()
    sign_in(Walk(newcomer, walk.folder), office, provider, "nina", "newcomers")
    newcomer.goto(f"{url_of(office)}/console/agents")
    expect(newcomer.get_by_role("link", name="New agent")).to_be_visible()
    page.get_by_role("button", name="Remove Nina").press("Enter")
    expect(page.get_by_role("button", name="Readmit Nina")).to_be_visible()
    newcomer.reload()
    expect(newcomer.get_by_role("heading", name="Sign in")).to_be_visible()
    page.get_by_role("link", name="Audit").click()
    expect(page.get_by_role("row", name="delete person").first).to_contain_text("Carl")
    walk.look("audit")
    page.get_by_role("button", name="Sign out").press("Enter")
    expect(page).to_have_url(re.compile(rf"{provider.url}/.*id_token_hint"))
    page.get_by_role("button").click()
    expect(page).to_have_url(f"{url_of(office)}/console")
    expect(page.get_by_role("heading", name="Sign in", exact=True)).to_be_visible()


def test_pages_of_people_fit_a_phone_in_the_dark(
    office: Server, provider: OidcProvider, open_walk: Callable[..., Walk]
) -> None:
    walk = open_walk(color_scheme="dark")
    walk.page.set_viewport_size({"width": 390, "height": 800})
    page = sign_in(walk, office, provider, "dora", "chiefs")
    for name in ("keys", "people", "audit"):
        page.goto(f"{url_of(office)}/console/{name}")
        walk.look(f"phone_{name}")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), name
