"""`spindle` as a client of a running API: declared, exported, applied, executed."""

from __future__ import annotations

import re
from pathlib import Path
from threading import Thread

import pytest
import yaml

from tests.support.api import PIPELINE, ROWS, Api, Job, Server
from tests.support.commands import Spindle
from tests.support.imports import list_imported
from tests.support.service import CLONE

DECLARED = f"""\
categories:
  - name: Crawlers
    visibility: PRIVATE
agents:
  - name: Books
    category: Crawlers
    pipelineFile: books.yaml
  - name: Inline
    pipeline: |
{"".join(f"      {line}" for line in PIPELINE.splitlines(keepends=True))}
projects:
  - name: Shop/North
    description: All of it
    parameters: {{CITY: Bern, SIZES: [1, 2]}}
    jobs:
      - name: books
        agent: Books
      - name: a/b
        agent: Inline
        enabled: false
        scheduledTime: 2030-01-01T00:00:00Z
  - name: Empty
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "books.yaml").write_text(PIPELINE)
    path = tmp_path / "spindle.yaml"
    path.write_text(DECLARED)
    return path


def test_apply_creates_the_declared_records_and_repeats_nothing(api: Api, spindle: Spindle, file: Path):
    shown = spindle("apply", "-f", file, "--dry-run")
    assert (shown.exit_code, "To be created 7, to be changed 0, to be deleted 0" in shown.output) == (3, True)
    assert api.get("/projects") == []
    made = spindle("apply", "-f", file)
    assert made.exit_code == 0, made.output
    assert "+ job Shop/North/a/b" in made.output
    jobs = api.get(f"/projects/id/{api.get('/projects')[0]['id']}/jobs")
    assert [(job["name"], job["enabled"], job["scheduledTime"]) for job in jobs] == [
        ("books", True, None),
        ("a/b", False, "2030-01-01T00:00:00Z"),
    ]
    agents = {agent["id"]: agent for agent in api.get("/agents")}
    assert agents[jobs[0]["agentId"]]["pipelineYaml"] == PIPELINE
    for arguments in ((), ("--dry-run",), ("--prune",)):
        again = spindle("apply", "-f", file, *arguments)
        assert (again.exit_code, re.search(r"reated 0, .*hanged 0, .*eleted 0", again.output) is None) == (0, False)


def test_apply_prints_the_warnings_of_the_service(spindle: Spindle, tmp_path: Path):
    file = tmp_path / "agents.yaml"
    calling = "fetch: {url: 'http://127.0.0.1/'}\npipeline: [{stage: 'python_row_transform:nope'}]"
    for described in ("made", "changed"):
        told = {"name": "x", "description": described, "pipeline": calling}
        file.write_text(yaml.safe_dump({"agents": [told]}))
        assert "unknown row transform 'nope'" not in spindle("apply", "-f", file, "--dry-run").output
        applied = spindle("apply", "-f", file)
        assert applied.exit_code == 0
        assert "\nwarning: agent 'x': line 2: unknown row transform 'nope'" in applied.output


SHOUT = "def shout(row):\n    return {'title': row['title'].upper()}\n"
CALLING = "fetch: {url: 'http://127.0.0.1/'}\npipeline:\n  - {stage: extract, args: [{selector: h1, as: title}]}\n"
CALLING += "  - {stage: 'python_row_transform:shout'}\n"


@pytest.mark.long
def test_extensions_are_made_changed_shown_and_pruned(api: Api, spindle: Spindle, tmp_path: Path):
    (tmp_path / "shout.py").write_text(SHOUT)
    file = tmp_path / "spindle.yaml"

    def declare(*extensions: dict[str, str]) -> None:
        agent = {"name": "Loud", "category": "Crawlers", "pipeline": CALLING, "extensions": [*extensions]}
        file.write_text(yaml.safe_dump({"categories": [{"name": "Crawlers"}], "agents": [agent]}))

    def stored() -> dict[str, str]:
        path = f"/agents/{api.get('/agents')[0]['id']}/python-extensions"
        return {each["name"]: each["function"] for each in api.get(path)}

    inline = {"name": "whisper", "function": "def whisper(row):\n    return row\n"}
    declare({"name": "shout", "functionFile": "shout.py"}, inline)
    made = spindle("apply", "-f", file)
    assert (made.exit_code, stored()) == (0, {"shout": SHOUT, "whisper": inline["function"]}), made.output
    assert made.output.splitlines() == [
        "+ category Crawlers",
        "+ agent Crawlers/Loud",
        "+ extension Crawlers/Loud/shout",
        "+ extension Crawlers/Loud/whisper",
        "Created 4, changed 0, deleted 0",
    ]
    assert "reated 0, to be changed 0, to be deleted 0" in spindle("apply", "-f", file, "--prune", "--dry-run").output

    (tmp_path / "shout.py").write_text(SHOUT.replace("upper", "title"))
    declare({"name": "shout"}, inline)
    assert "created 0, changed 0" in spindle("apply", "-f", file).output.lower()  # the function is left out: it stays
    declare({"name": "shout", "functionFile": "shout.py"})
    shown = spindle("apply", "-f", file, "--prune", "--dry-run")
    assert (shown.exit_code, len(stored())) == (3, 2)
    changed = spindle("apply", "-f", file)
    assert "~ extension Crawlers/Loud/shout\n    function:\n" in changed.output
    assert "      -    return {'title': row['title'].upper()}\n" in changed.output
    assert (stored()["shout"], len(stored())) == (SHOUT.replace("upper", "title"), 2)
    assert "- extension Crawlers/Loud/whisper" in spindle("apply", "-f", file, "--prune").output
    assert list(stored()) == ["shout"]

    declare()
    pruned = spindle("apply", "-f", file, "--prune")
    assert "warning: agent 'Crawlers/Loud': line 4: unknown row transform 'shout'" in pruned.output
    assert stored() == {}


def test_an_agent_that_declares_no_extensions_keeps_them_and_takes_them_with_it(
    api: Api, spindle: Spindle, tmp_path: Path
):
    agent = api.post("/agents", {"name": "Loud", "pipelineYaml": CALLING})
    api.post(f"/agents/{agent['id']}/python-extensions", {"function": SHOUT})
    file = tmp_path / "spindle.yaml"
    file.write_text("agents: [{name: Loud}]\n")
    assert "deleted 0" in spindle("apply", "-f", file, "--prune").output
    exported = tmp_path / "exported.yaml"
    spindle("export", "-o", exported)
    file.write_text("agents: []\n")
    assert spindle("apply", "-f", file, "--prune").output.splitlines() == [
        "- agent Loud",
        "Created 0, changed 0, deleted 1",
    ]
    assert "warning" not in spindle("apply", "-f", exported).output
    assert yaml.safe_load(spindle("export").output)["agents"] == [
        {"name": "Loud", "pipeline": CALLING, "extensions": [{"name": "shout", "function": SHOUT}]}
    ]
    assert "created 0, changed 0, deleted 0" in spindle("apply", "-f", exported, "--prune").output.lower()


def test_names_that_several_records_have_are_in_the_way_only_where_they_are_meant(
    api: Api, spindle: Spindle, file: Path
):
    for _ in range(2):
        api.post("/agents", {"name": "Twice"})
    assert spindle("apply", "-f", file).exit_code == 0
    job = file.with_name("job.yaml")
    job.write_text("projects:\n  - {name: Other, jobs: [{name: x, agent: Twice}]}\n")
    agent = file.with_name("agent.yaml")
    agent.write_text("agents: [{name: Twice}]\n")
    for arguments in (("apply", "-f", file, "--prune"), ("apply", "-f", job), ("apply", "-f", agent), ("export",)):
        refused = spindle(*arguments)
        assert (refused.exit_code, "more than one agent 'Twice'" in refused.output) == (1, True), refused.output


def test_a_declaration_that_cannot_be_applied_changes_nothing(api: Api, spindle: Spindle, file: Path):
    spindle("apply", "-f", file)
    before = [api.get(path) for path in ("/categories", "/agents", "/projects")]
    file.write_text(
        DECLARED.replace("visibility: PRIVATE", "icon: book")
        .replace("Bern", "Basel")
        .replace("agent: Inline", "agent: Inlin")
    )
    refused = spindle("apply", "-f", file, "--prune")
    assert (refused.exit_code, "no agent 'Inlin'. Did you mean Inline?" in refused.output) == (1, True), refused.output
    assert [api.get(path) for path in ("/categories", "/agents", "/projects")] == before
    file.write_text("categories: [{name: New}]\nagents: [{name: x, category: Crawler}]\n")
    assert "no category 'Crawler'. Did you mean Crawlers?" in spindle("apply", "-f", file).output
    assert [each["name"] for each in api.get("/categories")] == ["Crawlers"]


def test_the_example_applies(api: Api, spindle: Spindle):
    applied = spindle("apply", "-f", CLONE / "examples" / "shop" / "spindle.yaml")
    assert (applied.exit_code, "created 4" in applied.output.lower()) == (0, True), applied.output
    assert [project["parameters"] for project in api.get("/projects")] == [{"SHOP_URL": "http://127.0.0.1:8900/"}]


def test_apply_changes_differences_and_shows_them(api: Api, spindle: Spindle, file: Path):
    spindle("apply", "-f", file)
    file.write_text(DECLARED.replace("Bern", "Basel").replace("All of it", "Half of it"))
    (file.parent / "books.yaml").write_text(PIPELINE.replace("h1", "h2"))
    changed = spindle("apply", "-f", file)
    assert changed.exit_code == 0, changed.output
    assert '~ project Shop/North\n    description: "All of it" → "Half of it"\n' in changed.output
    assert "-  - {stage: extract, args: [{selector: h1, method: text, as: title}]}" in changed.output
    assert "changed 2" in changed.output
    assert api.get("/projects")[0]["parameters"] == {"CITY": "Basel", "SIZES": [1, 2]}


def test_records_missing_in_the_file_are_deleted_only_on_request(api: Api, spindle: Spindle, file: Path):
    spindle("apply", "-f", file)
    file.write_text("agents: []\nprojects:\n  - {name: Shop/North, jobs: [{name: books}]}\n")
    assert "deleted 0" in spindle("apply", "-f", file).output
    shown = spindle("apply", "-f", file, "--prune", "--dry-run").output
    pruned = spindle("apply", "-f", file, "--prune")
    assert [line for line in pruned.output.splitlines() if line[0] == "-"] == [
        "- job Shop/North/a/b",
        "- project Empty",
        "- agent Crawlers/Books",
        "- agent Inline",
    ]
    assert shown.splitlines()[:4] == pruned.output.splitlines()[:4]
    assert [each["name"] for each in api.get("/projects")] == ["Shop/North"]
    assert [each["name"] for each in api.get("/categories")] == ["Crawlers"]


def test_applying_an_export_changes_nothing(api: Api, server: Server, spindle: Spindle, file: Path, tmp_path: Path):
    spindle("apply", "-f", file)
    credential = {"provider": "OPENAI", "name": "models", "apiKey": "canary"}
    named = api.post("/cloud-credentials", credential)["id"]
    job = Job(api, *_job(api, "Shop/North", "books"), "")
    dataset = job.complete(job.execute(), ROWS)
    later = {"name": "later", "inputDatasetId": dataset, "cloudCredentialIds": [named]}
    api.post(f"/projects/id/{job.project_id}/jobs", later)
    exported = tmp_path / "exported.yaml"
    assert spindle("export", "-o", exported).exit_code == 0
    assert "canary" not in exported.read_text()
    assert "pipeline: |" in exported.read_text()
    again = spindle("apply", "-f", exported, "--prune")
    assert (again.exit_code, "created 0, changed 0, deleted 0" in again.output.lower()) == (0, True), again.output
    declared = yaml.safe_load(spindle("export").output)
    assert declared["projects"][0]["jobs"][2] == {
        "name": "later",
        "inputDataset": "shop_north.books",
        "cloudCredentials": ["OPENAI/models"],
    }
    other = server.caller("another instance", "admin")
    spindle("apply", "-f", file, "--key", other.key)
    assert yaml.safe_load(spindle("export", "--key", other.key).output)["agents"] == declared["agents"]


def _job(api: Api, project: str, job: str) -> tuple[str, str]:
    found = next(each["id"] for each in api.get("/projects") if each["name"] == project)
    return found, next(each["id"] for each in api.get(f"/projects/id/{found}/jobs") if each["name"] == job)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "projects:\n  - name: x\n    jobs:\n      - {nam: y}\n",
            "spindle.yaml:4: projects.0.jobs.0.name: Field required",
        ),
        ("agents:\n  - name: x\n    enabled: maybe\n", "spindle.yaml:3: agents.0.enabled: "),
        ("what: []\n", "spindle.yaml:1: what: unknown key"),
        ("- x\n", "spindle.yaml:1: "),
        ("projects: [\n", "spindle.yaml:2: "),
        (
            "agents: [{name: x, pipelineFile: nowhere.yaml}]\n",
            "nowhere.yaml cannot be read: No such file or directory.",
        ),
        ("agents: [{name: x, pipeline: a, code: b}]\n", "has more than one of pipeline, pipelineFile and code"),
        ("projects: [{name: x}, {name: x}]\n", "The project 'x' is declared twice."),
        ("agents: [{name: x, extensions: [{name: y}, {name: y}]}]\n", "The extension 'x/y' is declared twice."),
        ("agents: [{name: x, extensions: [{name: y, functionFile: nowhere.py}]}]\n", "nowhere.py cannot be read: No"),
        (
            "agents: [{name: x, extensions: [{name: y, function: a, functionFile: b}]}]\n",
            "The extension 'y' has both function and functionFile.",
        ),
        ("agents: [{name: x, extensions: [{name: y, function: a(}]}]\n", "extension 'x/y': The function 'y' cannot be"),
        ("agents: [{name: x, extensions: [{name: y}]}]\n", "extension 'x/y': "),
        (f"agents: [{{name: x, pipeline: {'{a: ' * 60}1{'}' * 61}]\n", "agent 'x' is nested too deep"),
        ("projects: [{name: x, jobs: [{name: y, agent: z}]}]\n", "job 'x/y': there is no agent 'z'."),
        ("agents: [{name: x, category: y}]\n", "agent 'y/x': there is no category 'y'."),
        ("agents:\n  - {name: x, pipeline: 'pipeline: [{stage: extrct}]'}\n", "agent 'x': The pipeline has a problem"),
    ],
    ids=range(17),
)
def test_errors_have_their_position(spindle: Spindle, file: Path, text: str, said: str):
    file.write_text(text)
    result = spindle("apply", "-f", file)
    assert (result.exit_code, said in result.output) == (1, True), result.output


@pytest.mark.long
def test_execute_follows_to_theend_next(api: Api, spindle: Spindle):
    job = api.job("Shop / main")
    accepted = spindle("execute", "Shop / main/Shop / main", "-p", "limit=1")
    assert (accepted.exit_code, "was accepted" in accepted.output) == (0, True)
    for outcome, code, said in (("COMPLETED", 0, "Completed"), ("FAILED", 3, "Failed: the shop is closed")):
        before = {each["executionId"] for each in api.get(f"{job.path}/executions")}
        ending = Thread(target=end_next, args=(job, before, outcome))
        ending.start()
        followed = spindle("execute", "Shop / main/Shop / main", "--follow")
        ending.join()
        assert (followed.exit_code, said in followed.output) == (code, True), followed.output


def end_next(job: Job, before: set[str], outcome: str) -> None:
    """Ends the next execution as a driver would."""
    while not (new := {each["executionId"] for each in job.api.get(f"{job.path}/executions")} - before):
        pass
    if outcome == "COMPLETED":
        job.complete(new.pop(), ROWS)
    else:
        job.report(new.pop(), outcome, errorMessage="the shop is closed")


@pytest.mark.parametrize("name", ["nowhere/x", "Shop", "Shop/", "", "/", "Shop/nothing"])
def test_a_job_that_is_not_there(api: Api, spindle: Spindle, name: str):
    api.project("Shop")
    result = spindle("execute", name)
    assert (result.exit_code, result.output) == (1, f"There is no job '{name}'. Jobs are named as PROJECT/JOB.\n")


def test_a_job_with_a_similar_name_is_suggested(api: Api, spindle: Spindle):
    api.job("Shop")
    result = spindle("execute", "Shpo/Shop")
    assert (result.exit_code, result.output) == (1, "There is no job 'Shpo/Shop'. Did you mean Shop/Shop?\n")


@pytest.mark.parametrize("columns", ["80", "200"])
def test_keys_are_shown_once_listed_without_and_revoked(
    api: Api, spindle: Spindle, monkeypatch: pytest.MonkeyPatch, columns: str
):
    monkeypatch.setenv("COLUMNS", columns)  # an id is listed whole in any window
    key = spindle("keys", "create", "reader", "--scope", "etl:read", "--days", "3").output.strip()
    reader = Api(api.client, api.settings, api.organization_id, key)
    assert reader.get("/projects") == []
    assert reader.call("POST", "/projects", json={"name": "x"}).status_code == 403
    listed = spindle("keys", "list").output
    assert key not in listed
    line = next(line for line in listed.splitlines() if "reader" in line)
    assert "etl:read" in line
    assert "valid until" in line
    assert spindle("keys", "revoke", line.split()[0]).exit_code == 0
    assert reader.call("GET", "/projects").status_code == 401
    assert "revoked" in spindle("keys", "list").output
    assert spindle("keys", "revoke", "nothing").output == "There is no API key with this id.\n"
    assert spindle("keys", "create", "x", "--scope", "all").exit_code == 1


def test_organizations_are_for_the_instances_admin(server: Server, spindle: Spindle):
    refused = spindle("orgs", "list")
    assert (refused.exit_code, refused.output) == (1, "This key lacks the scope super_admin.\n")
    admin = ["--key", (server.settings.data / "admin-key").read_text()]
    key = spindle("orgs", "create", "Newcomers", *admin).output.strip()
    listed = spindle("orgs", "list", *admin).output
    assert "Newcomers" in listed
    organization = next(line.split()[0] for line in listed.splitlines() if "Newcomers" in line)
    limited = spindle("orgs", "limits", organization, "--executions", 5, "--storage-gigabytes", 1.5, *admin).output
    assert [line.split() for line in limited.splitlines()[1:]] == [
        ["executionsAtOnce", "0", "5"],
        ["executionsADay", "0", "none"],
        ["storageBytes", "0", "1,500,000,000"],
        ["queriesAtOnce", "0", "none"],
    ]
    assert spindle("orgs", "limits", organization, *admin).output == limited
    assert "5" not in spindle("orgs", "limits", organization, "--reset", *admin).output
    assert "first admin" in spindle("keys", "list", "--key", key).output


def test_the_admin_key_of_a_local_server_is_the_default(
    server: Server, spindle: Spindle, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.delenv("SPINDLE_KEY")
    listed = spindle("orgs", "list", "--data", server.settings.data)
    assert (listed.exit_code, "default" in listed.output) == (0, True)
    missing = spindle("orgs", "list", "--data", "/nowhere")
    assert (missing.exit_code, "There is no API key." in missing.output) == (1, True)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://127.0.0.1:9", "cannot be reached at http://127.0.0.1:9/api/svc/api"),
        ("http://nowhere.invalid", "cannot be reached at"),
        ("ftp://127.0.0.1", "is not an address of http or https"),
        ("127.0.0.1:9", "is not an address of http or https"),
        ("http://[", "http://[ is not an address."),
        ("{server}/elsewhere", "No operation has this path."),
    ],
)
def test_an_address_without_spindle_is_an_error(api: Api, spindle: Spindle, url: str, said: str):
    result = spindle("export", "--url", url.format(server=str(api.client.base_url).rstrip("/")))
    assert (result.exit_code, said.lower() in result.output.lower()) == (1, True), result.output


def test_a_wrong_key_is_an_error_that_does_not_show_it(spindle: Spindle):
    result = spindle("export", "--key", "sk_wrong")
    assert result.exit_code == 1
    assert "--key" in result.output
    assert "sk_wrong" not in result.output
    assert "sk_wrong" not in result.output


def test_the_command_starts_without_unneeded_imports():
    assert list_imported("import cli.main", ("httpx", "sqlalchemy", "yaml", "dagster")) == []


def test_a_declaration_that_would_block_other_writers_for_long_is_refused(api: Api):
    declared = {
        "agents": [{"name": f"a{number}"} for number in range(400)],
        "projects": [{"name": "P", "jobs": [{"name": f"j{number}", "agent": f"a{number}"} for number in range(400)]}],
    }
    assert len(api.post("/apply", declared)["changes"]) == 801
    assert api.post("/apply?prune=true", declared)["changes"] == []
    many = {"categories": [{"name": f"c{number}"} for number in range(1001)]}
    answer = api.call("POST", "/apply", json=many)
    assert (answer.status_code, answer.json()["details"][0]["code"]) == (400, "too-large")
    assert api.get("/categories") == []
