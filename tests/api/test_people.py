"""People who sign in by a provider: sessions, roles, personal keys, removal, and the audit log."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import httpx
import pytest
from selectolax.lexbor import LexborHTMLParser, LexborNode

from api.console.provider import ATTEMPT_COOKIE
from api.console.provider import PATH as SIGN_IN
from api.kit.auth import CONSOLE_HEADER, SESSION_COOKIE
from core.definitions.identity.audit import delete_old_entries
from core.definitions.identity.roles import ROLES
from core.infra.database import open_database
from core.tables import now
from tests.api.operations import OPERATIONS
from tests.api.world import UNKNOWN_ID, make_world, store_person
from tests.support.api import BASE, ROWS, Api, Job, Server, answered, start_server
from tests.support.oidc_provider import OidcProvider
from tests.support.service import PATIENCE_SECONDS

GROUPS = ",".join(
    (
        *(f"{role}s=staff:{role}" for role in ROLES),
        *("guests=staff", "away=nowhere", "others=guests:admin"),
    )
)
SIGN_OUT = f"{SIGN_IN}/sign-out"
OF_CONSOLE = {CONSOLE_HEADER: "1"}
EXECUTE = "POST /projects/id/x/jobs/x/execute"
SCRIPTED = {  # buttons whose script knows what they call
    "#trial #try": ["POST /agents/try"],
    "#editor #store": ["POST /agents"],
    "#editor #run": ["POST /agents", EXECUTE],
    "#guide #look, #crawl": ["POST /agents/try", "POST /agents", "POST /projects", EXECUTE],  # all steps or none
    "#sql #run": ["POST /datasets/query"],
}
READING = ("form[method=get] button", "#sql #save", "form[action='/console/sign-out'] button")
FORMS = (
    "form[data-form]",
    "form[method=get]",
    "form[action='/console/sign-out']",
    "#trial",
    "#editor",
    "#guide",
    "#sql",
)


@pytest.fixture(scope="module")
def office(provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service that people sign in to."""
    with start_server(tmp_path_factory.mktemp("office"), **provider.settings(oidc_groups=GROUPS)) as server:
        yield server


@pytest.fixture(scope="module")
def staff(office: Server) -> Api:
    return office.caller("staff", "admin")


@pytest.fixture(scope="module")
def guests(office: Server) -> Api:
    return office.caller("guests", "admin")


class Browser:
    """A browser at the provider and the console, of one person."""

    def __init__(self, client: httpx.Client, provider: OidcProvider) -> None:
        self.client = client
        self._provider = provider

    def go_to_provider(self, target: str = "/console") -> str:
        answer = self.client.get(SIGN_IN, params={"target": target})
        assert answer.status_code == 303, answer.text
        return answer.headers["Location"]

    def sign_in(self, subject: str, **options: str) -> httpx.Response:
        return self.client.get(self._provider.allow(self.go_to_provider(**options), subject))

    def call(self, method: str, path: str, **request: Any) -> httpx.Response:
        """Call REST as the console's pages do."""
        return self.client.request(method, f"{BASE}{path}", headers=OF_CONSOLE, **request)

    def sign_out(self) -> httpx.Response:
        return self.client.post("/console/sign-out", headers={"Origin": str(self.client.base_url)})

    @property
    def signed_in(self) -> bool:
        return self.client.get("/console/agents").status_code == 200


OpenBrowser = Callable[[], Browser]


@pytest.fixture
def open_browser(office: Server, provider: OidcProvider, staff: Api, guests: Api) -> Generator[OpenBrowser]:
    with ExitStack() as stack:

        def begin() -> Browser:
            client = httpx.Client(base_url=office.client.base_url, timeout=PATIENCE_SECONDS, verify=False)
            return Browser(stack.enter_context(client), provider)

        yield begin


@pytest.fixture
def enter(open_browser: OpenBrowser, provider: OidcProvider) -> Callable[..., Browser]:
    """Sign in a person of these groups."""

    def sign_in(subject: str, *groups: str) -> Browser:
        provider.set_person(subject, *groups)
        browser = open_browser()
        assert browser.sign_in(subject).status_code == 303
        return browser

    return sign_in


def find_person(admin: Api, name: str) -> Any:
    return next(each for each in admin.get("/auth/people") if each["name"] == name)


def in_days(days: float) -> str:
    return (now() + timedelta(days=days)).isoformat()


def test_a_person_signs_in_and_out(open_browser: OpenBrowser, provider: OidcProvider, staff: Api):
    provider.set_person("ann", "guests", "operators", "viewers", name="Ann <b>Lee</b>")
    browser = open_browser()
    page = browser.client.get("/console/datasets?cursor=x")
    assert (page.status_code, f"{SIGN_IN}?target=/console/datasets%3Fcursor%3Dx" in page.text) == (401, True)
    answer = browser.sign_in("ann", target="/console/datasets")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/console/datasets")
    cookie = next(each for each in answer.headers.get_list("Set-Cookie") if each.startswith(SESSION_COOKIE))
    assert {"HttpOnly", "SameSite=lax", "Path=/"} <= set(cookie.split("; "))
    assert "Ann &lt;b&gt;Lee" in browser.client.get("/console/datasets").text
    me = answered(browser.call("GET", "/auth/people/me"))
    assert (me["email"], me["role"], me["roleFromProvider"]) == ("ann@example.test", "operator", True)
    assert me in staff.get("/auth/people")
    page = browser.sign_out().text
    shown = re.search(r'href="(.*?/end_session.*?)"', page)
    assert shown is not None
    query = parse_qs(urlsplit(shown[1].replace("&amp;", "&")).query)
    assert (query["client_id"], len(query["id_token_hint"])) == (["spindle"], 1)
    back = browser.client.get(query["post_logout_redirect_uri"][0])
    assert (back.status_code, back.headers["Location"], browser.signed_in) == (303, "/console", False)
    mine = [each["action"] for each in staff.get("/audit") if each["personId"] == me["id"]]
    assert mine == ["sign_out", "sign_in"]


def test_a_key_signs_in_beside_the_provider(open_browser: OpenBrowser, staff: Api):
    browser = open_browser()
    form = {"key": staff.key}
    browser.client.post("/console/sign-in", data=form, headers={"Origin": str(browser.client.base_url)})
    assert browser.signed_in
    assert browser.call("GET", "/auth/people/me").status_code == 404
    assert browser.sign_out().status_code == 303


def test_without_a_provider_there_is_none(server: Server):
    assert server.client.get(SIGN_IN).status_code == 404
    assert server.client.post(SIGN_OUT, data={"logout_token": "x"}).status_code == 404
    assert SIGN_IN not in server.client.get("/console").text


@pytest.mark.parametrize(("groups", "status"), [((), 403), (("unknown",), 403), (("away",), 403)])
def test_whom_no_group_names_is_refused(
    open_browser: OpenBrowser, provider: OidcProvider, groups: tuple[str, ...], status: int
):
    provider.set_person("eve", *groups)
    browser = open_browser()
    answer = browser.sign_in("eve")
    assert (answer.status_code, SESSION_COOKIE in browser.client.cookies) == (status, False)


def forge(address: str, **changes: str) -> str:
    parts = urlsplit(address)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()} | changes
    return parts._replace(query=urlencode(query)).geturl()


def test_a_forged_answer_of_the_provider_is_refused(open_browser: OpenBrowser, provider: OidcProvider):
    provider.set_person("ann", "viewers")
    victim, attacker = open_browser(), open_browser()
    own = provider.allow(attacker.go_to_provider(), "ann")
    state = parse_qs(urlsplit(victim.go_to_provider()).query)["state"][0]
    for address in (own, forge(own, state=state)):  # a session of the attacker, which the victim would use
        assert victim.client.get(address).status_code == 403
    for what, change in (("nonce", {"nonce": "another"}), ("code_challenge", {"code_challenge": "x" * 43})):
        address = provider.allow(forge(victim.go_to_provider(), **change), "ann")
        assert victim.client.get(address).status_code == 403, what
    for change in ({"state": "x"}, {"state": "\u20ac"}, {"code": "x"}, {"code": ""}, {"error": "<script>"}):
        address = forge(provider.allow(victim.go_to_provider(), "ann"), **change)
        answer = victim.client.get(address)
        assert (answer.status_code, "<script>" in answer.text.partition("<main")[2]) == (403, False), change
    address = provider.allow(victim.go_to_provider(), "ann")
    kept = victim.client.cookies[ATTEMPT_COOKIE]
    del victim.client.cookies[ATTEMPT_COOKIE]
    assert victim.client.get(address, headers={"Cookie": f"{ATTEMPT_COOKIE}={kept[:-8]}AAAAAAA="}).status_code == 403
    assert SESSION_COOKIE not in victim.client.cookies


def test_a_code_counts_once(open_browser: OpenBrowser, provider: OidcProvider):
    provider.set_person("ann", "viewers")
    browser = open_browser()
    address = provider.allow(browser.go_to_provider(), "ann")
    kept = {"Cookie": f"{ATTEMPT_COOKIE}={browser.client.cookies[ATTEMPT_COOKIE]}"}
    assert browser.client.get(address).status_code == 303
    browser.client.cookies.clear()
    assert browser.client.get(address, headers=kept).status_code == 403


@pytest.mark.long
def test_each_role_may_what_its_scopes_allow(enter: Callable[..., Browser]):
    wrong: list[str] = []
    for role, scopes in ROLES.items():
        browser = enter(f"a {role}", f"{role}s")
        for operation in OPERATIONS:
            if operation.path.endswith("/events") or (operation.method == "GET" and operation.streams):
                continue
            path = operation.path.format_map(dict.fromkeys(operation.path_parameters, UNKNOWN_ID))
            request: dict[str, Any] = {"json": operation.body({}), "params": operation.query, "headers": OF_CONSOLE}
            answer = browser.client.request(operation.method, path, **request)
            allowed = set(operation.scopes) <= scopes
            if (answer.status_code != 403) != allowed:
                wrong.append(f"{operation} as {role}: {answer.text}")
    assert wrong == []


def list_pages(client: httpx.Client) -> dict[str, LexborHTMLParser]:
    """All pages of the console that links lead the caller to, from home and the first visit on."""
    pages: dict[str, LexborHTMLParser] = {}
    ahead = ["/console", "/console/guide"]
    while ahead:
        path = ahead.pop()
        answer = client.get(path)
        assert answer.status_code == 200, path
        if not answer.headers["Content-Type"].startswith("text/html"):
            continue
        pages[path] = page = LexborHTMLParser(answer.text)
        links = {urljoin(path, each.attributes["href"] or "").partition("#")[0] for each in page.css("a[href]")}
        ahead += [each for each in links if re.match("/console(?!/dagster)", each) and each not in {*pages, *ahead}]
    return pages


def list_buttons(page: LexborHTMLParser) -> dict[str, set[str]]:
    """What the buttons and forms of a page do, with the scopes of that; each must be known to this test."""
    found: dict[str, set[str]] = {}
    for each in page.css("button"):
        if any(each.css_matches(known) for known in READING):
            continue
        names = [name for name in SCRIPTED if each.css_matches(name)]
        if each.attributes.get("data-action"):
            operations = [f"{each.attributes['data-action']} {each.attributes['data-path']}"]
        elif form := next((one for one in page.css("form[data-form]:has(button)") if contains(one, each)), None):
            operations = [f"{form.attributes['data-method']} {form.attributes['data-path']}"]
        else:
            assert len(names) == 1, f"This test does not know the button {each.html}."
            operations = SCRIPTED[names[0]]
        found["; ".join(operations)] = set[str]().union(*(find_scopes(*one.split(" ", 1)) for one in operations))
    unknown = [each.html for each in page.css("form") if not any(each.css_matches(known) for known in FORMS)]
    assert unknown == []
    return found


def contains(form: LexborNode, button: LexborNode) -> bool:
    return any(each.mem_id == button.mem_id for each in form.css("button"))


def find_scopes(method: str, path: str) -> set[str]:
    path = (path if path.startswith("/api/") else BASE + path).partition("?")[0]
    fitting = [
        each
        for each in OPERATIONS
        if each.method == method and re.fullmatch(re.sub(r"{\w+}", "[^/]+", each.path), path)
    ]
    return set(min(fitting, key=lambda each: len(each.path_parameters)).scopes)


@pytest.mark.long
def test_each_role_sees_the_buttons_that_it_may_press(enter: Callable[..., Browser], staff: Api):
    world = make_world(staff, "shown")
    job = Job(staff, world["projectId"], world["jobId"], world["agentId"])
    job.complete(job.execute(), ROWS)  # a second version, so that the first can be restored
    job.report(job.execute(), "FAILED", errorMessage="for a retry")
    staff.post(
        "/api/svc/cloud/scheduler/cronjobs", {"name": "shown", "schedule": "@daily", "webhookUrl": "https://x.test/"}
    )
    staff.call("DELETE", f"/auth/people/{store_person(staff, 'away')}")
    enter("another", "guests")
    clients = {role: enter(f"a {role}", f"{role}s").client for role in ROLES}
    pages = {role: list_pages(client) for role, client in clients.items()}
    wrong: list[str] = []
    for role, scopes in ROLES.items():
        for path, page in pages["admin"].items():
            answer = clients[role].get(path)
            allowed = {name for name, needed in list_buttons(page).items() if needed <= scopes}
            shown = list_buttons(LexborHTMLParser(answer.text)).keys()
            if shown != (allowed if answer.status_code == 200 else set()):
                wrong.append(f"{role} at {path}: {shown ^ allowed}")
        wrong += [f"{role} alone: {path}" for path in pages[role].keys() - pages["admin"].keys()]
    assert wrong == []
    pressed = {role: {name for page in found.values() for name in list_buttons(page)} for role, found in pages.items()}
    assert len(pressed["viewer"]) < len(pressed["operator"]) < len(pressed["editor"]) < len(pressed["admin"])
    everywhere = "\n".join(pressed["admin"])
    for part in (
        "/restore",
        "/retry",
        "/cancel",
        "/execute",
        "/readmit",
        "/cronjobs/",
        "/cloud-credentials/test",
        "/test",
    ):
        assert part in everywhere
    for name, operations in SCRIPTED.items():
        assert "; ".join(operations) in pressed["admin"], name


def test_removal_ends_sessions_and_keys_at_once(enter: Callable[..., Browser], open_browser: OpenBrowser, staff: Api):
    browser = enter("bob", "editors")
    made = answered(browser.call("POST", "/auth/people/me/api-keys", json={"name": "own", "expiresAt": in_days(9)}))
    key = {"X-API-Key": made["key"]}
    assert (browser.signed_in, staff.client.get(f"{BASE}/projects", headers=key).status_code) == (True, 200)
    person = find_person(staff, "Bob")["id"]
    staff.call("DELETE", f"/auth/people/{person}")
    assert (browser.signed_in, staff.client.get(f"{BASE}/projects", headers=key).status_code) == (False, 401)
    assert open_browser().sign_in("bob").status_code == 403
    staff.post(f"/auth/people/{person}/readmit")
    assert open_browser().sign_in("bob").status_code == 303
    assert staff.client.get(f"{BASE}/projects", headers=key).status_code == 401


def test_a_sign_out_at_the_provider_ends_sessions_at_once(
    open_browser: OpenBrowser, provider: OidcProvider, staff: Api, office: Server
):
    def enter(subject: str, **claims: str) -> Browser:
        provider.set_person(subject, "viewers", **claims)
        browser = open_browser()
        browser.sign_in(subject)
        assert browser.signed_in
        return browser

    def send(token: str) -> int:
        return office.client.post(SIGN_OUT, data={"logout_token": token}).status_code

    desk, phone, other = enter("uma", sid="desk"), enter("uma", sid="phone"), enter("vic", sid="other")
    made = answered(desk.call("POST", "/auth/people/me/api-keys", json={"name": "own", "expiresAt": in_days(9)}))
    assert send(provider.sign_logout(sub="uma", sid="other")) == 200  # no session of hers
    assert (desk.signed_in, phone.signed_in, other.signed_in) == (True, True, True)
    assert send(provider.sign_logout(sid="phone")) == 200
    assert (desk.signed_in, phone.signed_in, other.signed_in) == (True, False, True)
    all_of_hers = provider.sign_logout(sub="uma")
    assert send(all_of_hers) == 200
    assert (desk.signed_in, other.signed_in) == (False, True)
    assert staff.client.get(f"{BASE}/projects", headers={"X-API-Key": made["key"]}).status_code == 200
    again = enter("uma", sid="again")
    assert (send(all_of_hers), send("x"), send("")) == (400, 400, 400)
    assert (again.signed_in, send(provider.sign_logout(sub="nobody"))) == (True, 200)
    unnamed = enter("wim")
    assert send(provider.sign_logout(sub="wim", sid="unknown")) == 200
    assert (unnamed.signed_in, other.signed_in) == (False, True)
    ended = [each["actor"] for each in staff.get("/audit") if each["action"] == "sign_out_by_provider"]
    assert ended == ["Wim", "Uma", "Uma"]


def test_a_change_of_the_role_counts_at_once(enter: Callable[..., Browser], open_browser: OpenBrowser, staff: Api):
    browser = enter("gus", "guests")
    person = find_person(staff, "Gus")
    assert (person["role"], person["roleFromProvider"]) == ("viewer", False)
    staff.put(f"/auth/people/{person['id']}", {"role": "editor"})
    assert not browser.signed_in
    assert browser.sign_in("gus").status_code == 303
    assert find_person(staff, "Gus")["role"] == "editor"
    made = answered(browser.call("POST", "/auth/people/me/api-keys", json={"name": "own", "expiresAt": in_days(9)}))
    assert made["scopes"] == sorted(ROLES["editor"])
    key = {"X-API-Key": made["key"]}
    project = {"name": "of Gus"}
    assert staff.client.post(f"{BASE}/projects", headers=key, json=project).status_code == 200
    staff.put(f"/auth/people/{person['id']}", {"role": "viewer"})
    assert staff.client.post(f"{BASE}/projects", headers=key, json=project).status_code == 403
    assert staff.client.get(f"{BASE}/projects", headers=key).status_code == 200
    assert staff.call("PUT", f"/auth/people/{person['id']}", json={"role": "boss"}).status_code == 400


def test_groups_decide_at_each_sign_in(enter: Callable[..., Browser], provider: OidcProvider, staff: Api, guests: Api):
    browser = enter("mia", "editors")
    person = find_person(staff, "Mia")
    assert staff.call("PUT", f"/auth/people/{person['id']}", json={"role": "admin"}).status_code == 409
    made = answered(browser.call("POST", "/auth/people/me/api-keys", json={"name": "own", "expiresAt": in_days(9)}))
    provider.set_person("mia", "others")
    moved = enter("mia", "others")
    assert (browser.signed_in, moved.signed_in) == (False, True)
    assert staff.client.get(f"{BASE}/projects", headers={"X-API-Key": made["key"]}).status_code == 401
    assert [each["name"] for each in guests.get("/auth/people")] == ["Mia"]
    assert person["id"] not in {each["id"] for each in staff.get("/auth/people")}


def test_personal_keys_never_exceed_their_person(enter: Callable[..., Browser], staff: Api):
    browser, other = enter("pia", "operators"), enter("tom", "operators")
    path = "/auth/people/me/api-keys"
    for body, status in (
        ({"name": "x", "expiresAt": in_days(9), "scopes": ["etl:write"]}, 403),
        ({"name": "x", "expiresAt": in_days(9), "scopes": ["super_admin"]}, 403),
        ({"name": "x", "expiresAt": in_days(9), "scopes": []}, 400),
        ({"name": "x", "expiresAt": in_days(-1)}, 400),
        ({"name": "x", "expiresAt": in_days(400)}, 400),
        ({"name": "x"}, 400),
        ({"name": "x", "expiresAt": in_days(9), "scopes": ["etl:read"]}, 200),
    ):
        answer = browser.call("POST", path, json=body)
        assert answer.status_code == status, (body, answer.text)
    [made] = answered(browser.call("GET", path))
    assert made["personId"] == find_person(staff, "Pia")["id"]
    assert (answered(other.call("GET", path)), made in staff.get("/auth/api-keys")) == ([], True)
    assert other.call("DELETE", f"{path}/{made['id']}").status_code == 404
    secret = answer.json()["key"]
    with_key = {"X-API-Key": secret}
    assert staff.client.get(f"{BASE}/auth/people/me", headers=with_key).json()["name"] == "Pia"
    more = {"name": "y", "expiresAt": in_days(9), "scopes": ["etl:execute"]}
    assert staff.client.post(f"{BASE}{path}", headers=with_key, json=more).status_code == 403
    assert browser.call("DELETE", f"{path}/{made['id']}").status_code == 200
    assert staff.client.get(f"{BASE}/auth/people/me", headers=with_key).status_code == 401


def test_a_person_keeps_private_categories_whichever_key_is_used(enter: Callable[..., Browser], staff: Api):
    browser, other = enter("kim", "editors"), enter("lou", "editors")
    made = answered(browser.call("POST", "/auth/people/me/api-keys", json={"name": "own", "expiresAt": in_days(9)}))
    body = {"name": "of Kim", "visibility": "PRIVATE"}
    category = answered(browser.call("POST", "/categories", json=body))["id"]
    path = f"/categories/id/{category}"
    assert staff.client.get(f"{BASE}{path}", headers={"X-API-Key": made["key"]}).status_code == 200
    assert (browser.call("GET", path).status_code, other.call("GET", path).status_code) == (200, 404)


def test_people_of_another_organization_are_unknown(enter: Callable[..., Browser], staff: Api, guests: Api):
    browser = enter("zoe", "viewers")
    person = find_person(staff, "Zoe")["id"]
    for method, path in (("PUT", person), ("DELETE", person), ("POST", f"{person}/readmit")):
        for unknown in (path, path.replace(person, UNKNOWN_ID), path.replace(person, "%00")):
            answer = guests.call(method, f"/auth/people/{unknown}", json={"role": "admin"})
            assert answer.status_code == 404, (method, unknown)
    assert browser.signed_in


def test_the_audit_log_names_who_did_what(enter: Callable[..., Browser], staff: Api, guests: Api):
    browser = enter("ida", "editors")
    person = find_person(staff, "Ida")["id"]
    project = answered(browser.call("POST", "/projects", json={"name": "secret name"}))["id"]
    answered(browser.call("PUT", f"/projects/id/{project}", json={"description": "secret text"}))
    browser.call("POST", "/auth/api-keys", json={"name": "x"})  # refused
    browser.call("POST", "/agents/check", json={"pipelineYaml": "pipeline: []"})  # changes nothing
    browser.call("GET", "/projects")
    schedule = {"name": "nightly", "cronSchedule": "@daily"}
    answered(browser.call("POST", f"/projects/id/{project}/schedules", json=schedule))
    made = staff.post("/auth/api-keys", {"name": "robot"})
    entries = staff.get("/audit", limit=6)
    shown = [(each["actor"], each["action"], each["object"], each["status"]) for each in entries]
    assert shown == [
        ("test", "make_key", {"id": made["id"]}, 200),
        ("Ida", "create_schedule", {"projectId": project, "name": "nightly"}, 200),
        ("Ida", "make_key", {}, 403),
        ("Ida", "update_project", {"projectId": project}, 200),
        ("Ida", "create_project", {"id": project}, 200),
        ("Ida", "sign_in", {}, 303),
    ]
    assert [each["personId"] for each in entries] == [None, person, person, person, person, person]
    assert [each["keyId"] is None for each in entries] == [False, True, True, True, True, True]
    assert "secret" not in str(entries)
    assert made["key"] not in str(staff.get("/audit"))
    following = staff.call("GET", "/audit?limit=2").links["next"]["url"]
    assert [each["id"] for each in answered(staff.call("GET", following))] == [each["id"] for each in entries[2:4]]
    assert project not in str(guests.get("/audit"))
    assert browser.call("GET", "/audit").status_code == 403


def test_old_audit_entries_are_removed(office: Server, staff: Api):
    staff.project("remembered")
    database = open_database(office.settings)
    with database.write() as session:
        assert delete_old_entries(session, now() - timedelta(hours=1), None) == 0
    with database.write() as session:
        assert delete_old_entries(session, now() + timedelta(seconds=1), 1) == 1
        assert delete_old_entries(session, now() + timedelta(seconds=1), None) > 0
    database.close()
    assert staff.get("/audit") == []
