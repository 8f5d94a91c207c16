"""Python extensions over HTTP: registered with an agent, called by its pipeline, and never run by the service."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from api.python_extensions.schemas import Validation, build_processed_text
from core.definitions.identity.organizations import create_organization
from core.definitions.python_extensions.scripts import ProcessedPipeline
from pipelines.stages.transform import PythonRowTransform
from pipelines.transforms.transform import Transforms
from tests.support.api import Api, Server, open_session

SHOUT = "def shout(row, *, mark):\n    return {'title': row['title'].upper() + mark}\n"
PIPELINE = """\
fetch: {url: "http://127.0.0.1/"}
pipeline:
  - {stage: extract, args: [{selector: h1, as: title}]}
  - {stage: "python_row_transform:Shout", args: {mark: "!"}}
"""
UNKNOWN = [
    "line 4: unknown row transform 'Shout'; known are none (one is registered with the agent, by "
    "POST /svc/api/agents/{agentId}/python-extensions, or by a plugin; `spindle run` and `check` take a file of them: "
    "--transforms FILE)"
]
INLINE = """\
python_extensions:
  stages:
    shout:
      type: row_transform
      function: |
        def shout(row, *, mark):
            return {'title': row['title'].upper() + mark}
"""
ROOM = "/python-extensions"


@pytest.fixture
def reader(server: Server, acme: Api) -> Api:
    return server.caller(acme.organization_id, "etl:read")


@pytest.fixture
def agent(acme: Api) -> str:
    return acme.post("/agents", {"name": "shouts", "pipelineYaml": PIPELINE})["id"]


def registered(api: Api, agent: str, **fields: str) -> str:
    return api.post(f"/agents/{agent}/python-extensions", {"function": SHOUT, **fields})["id"]


def put(api: Api, path: str, body: Any) -> Any:
    """The extension as it is after a change, which is answered without a body."""
    answer = api.call("PUT", path, json=body)
    assert (answer.status_code, answer.content) == (200, b"")
    return api.get(path)


def refusal(api: Api, method: str, path: str, body: Any) -> tuple[int, str, list[str]]:
    """Status, sentence, and the paths of what is wrong."""
    response = api.call(method, path, json=body)
    told = response.json()
    return response.status_code, told["error"], [each["path"] for each in told.get("details", [])]


def test_an_extension_from_first_to_last(acme: Api, agent: str):
    made = acme.post(f"/agents/{agent}/python-extensions", {"name": "shout", "extensionType": "ROW_TRANSFORM",
                                                           "function": SHOUT})  # fmt: skip
    assert made.keys() == {"id", "agentId", "name", "extensionType", "function", "createdAt", "updatedAt"}
    assert (made["agentId"], made["name"], made["extensionType"]) == (agent, "shout", "row_transform")
    path = f"{ROOM}/{made['id']}"
    assert acme.get(path) == made
    changed = put(acme, path, {"function": SHOUT.replace("upper", "lower"), "name": None})
    assert (changed["name"], changed["function"]) == ("shout", SHOUT.replace("upper", "lower"))
    assert put(acme, path, {**changed, "name": "whisper"})["name"] == "whisper"
    assert [each["name"] for each in acme.get(f"/agents/{agent}/extensions")] == ["whisper"]
    deleted = acme.call("DELETE", path)
    assert (deleted.status_code, deleted.content) == (200, b"")
    assert acme.get(f"/agents/{agent}/python-extensions") == []
    assert acme.call("GET", path).status_code == 404


def test_a_path_may_be_read_below_the_prefix_or_without_it(acme: Api, agent: str):
    body = {"agentId": agent, "type": "rowTransform", "function": SHOUT}
    for path, name in ((f"{ROOM}{ROOM}/register", "a"), (f"{ROOM}/register", "b")):
        answer = acme.call("POST", path, json=body | {"name": name})
        assert (answer.status_code, answer.content) == (200, b"")
    one, two = (each["id"] for each in acme.get(f"/agents/{agent}/extensions"))
    for listed in (f"{ROOM}/agents/{agent}/extensions", f"{ROOM}/agents/{agent}/python-extensions"):
        assert [each["id"] for each in acme.get(listed)] == [one, two]
        assert acme.get(listed) == acme.get(listed.removeprefix(ROOM))
    three = acme.post(f"{ROOM}/agents/{agent}/python-extensions", {"name": "c", "function": SHOUT})["id"]
    for spelling in (f"{ROOM}{ROOM}", ROOM):
        assert put(acme, f"{spelling}/{three}", {"function": SHOUT})["id"] == three
        assert acme.post(f"{spelling}/{three}/generate-pyspark")["code"]
    assert acme.call("DELETE", f"{ROOM}{ROOM}/{two}").status_code == 200
    assert acme.call("DELETE", f"{ROOM}/{three}").status_code == 200


def test_a_list_continues_at_its_link(acme: Api, agent: str):
    ids = [registered(acme, agent, name=name) for name in "abc"]
    page = acme.call("GET", f"/agents/{agent}/extensions", params={"limit": 2})
    assert [each["id"] for each in page.json()] == ids[:2]
    rest = acme.client.get(page.links["next"]["url"], headers={"X-API-Key": acme.key}).json()
    assert [each["id"] for each in rest] == ids[2:]


WRONG: list[tuple[dict[str, Any], str, list[str]]] = [
    ({}, "not valid: function", ["function"]),
    ({"function": 5}, "not valid: function", ["function"]),
    ({"function": SHOUT, "extensionType": 5}, "not valid: extensionType", ["extensionType"]),
    ({"function": SHOUT, "extensionType": "udf"}, "type 'udf'; there is row_transform", ["extensionType"]),
    ({"function": SHOUT, "name": " "}, "'name' is blank", ["name"]),
    ({"function": SHOUT, "name": "${A}"}, "no '${'", ["name"]),
    ({"function": SHOUT, "name": "a "}, "no white space at its ends", ["name"]),
    ({"function": SHOUT, "name": "a\nb"}, "no control character", ["name"]),
    ({"function": SHOUT, "name": "a\x7f"}, "no control character", ["name"]),
    ({"function": SHOUT, "extensionType": None, "type": "udf"}, "type 'udf'", ["extensionType"]),
    ({"function": 'def f(row) -> "\\ud800": return row'}, "cannot be used", ["function"]),
    ({"function": SHOUT, "name": "\ud800"}, "cannot be stored", ["name"]),
    ({"function": SHOUT, "extensionType": "\ud800"}, "cannot be stored", ["extensionType"]),
    ({"function": SHOUT + "\0"}, "cannot be stored", ["function"]),
    ({"function": SHOUT + SHOUT.replace("shout", "other")}, "needs a 'name'", ["name"]),
    ({"function": "def shout(row:\n"}, "cannot be used: line 1: not Python", ["function"]),
    ({"function": "x = 1\n", "name": "shout"}, "'shout' cannot be used: there is no function", ["function"]),
    ({"function": "def shout(): ...\n"}, "line 1: shout must take the row", ["function"]),
    ({"function": "#" * 70_000, "name": "shout"}, "at most 64 KiB", ["function"]),
]


@pytest.mark.parametrize(("body", "sentence", "paths"), WRONG, ids=[each[1] for each in WRONG])
def test_an_invalid_value_is_refused_with_its_field_and_line(
    acme: Api, agent: str, body: Any, sentence: str, paths: list[str]
):
    text = json.dumps(body)  # half a surrogate pair as clients can send it
    response = acme.call("POST", f"/agents/{agent}/python-extensions", content=text)
    told = response.json()
    assert response.status_code == 400
    assert sentence in told["error"]
    assert [each["path"] for each in told["details"]] == paths
    assert acme.get(f"/agents/{agent}/extensions") == []
    validated = acme.call("POST", f"{ROOM}/validate", content=text)
    if body.get("function", SHOUT) == 5 or body.get("extensionType") == 5:
        assert validated.json() | {"timestamp": None} == told | {"timestamp": None}
    else:
        assert validated.json()["valid"] is False
        assert body == {} or validated.json()["errors"] == [each["message"] for each in told["details"]]


@pytest.mark.parametrize("field", ["function", "code", "source"])
def test_a_function_may_have_several_names(acme: Api, agent: str, field: str):
    body: dict[str, Any] = {"function": None, "code": None, "source": None} | {field: SHOUT}
    assert acme.post(f"{ROOM}/validate", body) == {"valid": True, "errors": []}
    assert acme.post(f"/agents/{agent}/python-extensions", body)["function"] == SHOUT


@pytest.mark.parametrize("body", [{}, {"name": "f"}, {"function": None}, {"code": None, "type": "row_transform"}])
def test_without_a_text_nothing_is_valid(acme: Api, body: dict[str, Any]):
    told = acme.post(f"{ROOM}/validate", body)
    assert told == {"valid": False, "errors": ["A Python extension needs a 'function', which is text."]}


def test_a_change_that_cannot_be_used_changes_nothing(acme: Api, agent: str):
    extension = registered(acme, agent)
    status, sentence, paths = refusal(acme, "PUT", f"{ROOM}/{extension}", {"function": "def shout(row:"})
    assert (status, paths) == (400, ["function"])
    assert "line 1: not Python" in sentence
    assert acme.get(f"{ROOM}/{extension}")["function"] == SHOUT


def test_a_name_is_one_of_its_agent_in_any_spelling(acme: Api, agent: str):
    first, second = registered(acme, agent), registered(acme, agent, name="other")
    body = {"agentId": agent, "name": "SH_OUT", "function": SHOUT}
    for method, path in (("POST", f"{ROOM}/register"), ("PUT", f"{ROOM}/{second}")):
        status, sentence, _ = refusal(acme, method, path, body)
        assert (status, sentence) == (409, "The agent has a Python extension called 'SH_OUT' already.")
    assert put(acme, f"{ROOM}/{first}", body)["name"] == "SH_OUT"


def test_an_unregistered_function_of_an_agents_pipeline_is_a_warning(acme: Api):
    made = acme.post("/agents", {"name": "warned", "pipelineYaml": PIPELINE})
    (warning,) = made["warnings"]
    assert warning.startswith("line 4: unknown row transform 'Shout'")  # then others of the organization's plugins
    path = f"/agents/none/{made['id']}"
    assert acme.put(path, {"description": "still"})["warnings"] == [warning]
    extension = registered(acme, made["id"])
    assert "warnings" not in acme.put(path, {"description": "registered"})
    assert "warnings" not in acme.get(path)
    put(acme, f"{ROOM}/{extension}", {"function": SHOUT.replace("mark", "sign")})
    assert acme.put(path, {"description": "called wrongly"})["warnings"] == [
        "line 4: shout: unknown argument 'mark'; known are sign",
        "line 4: shout: the argument 'sign' is missing",
    ]


def test_a_misspelt_key_of_an_agents_pipeline_is_a_warning(acme: Api):
    text = "start_urls: [http://127.0.0.1/]\n" + PIPELINE
    [warning, *_] = acme.post("/agents", {"name": "Misspelt", "pipelineYaml": text})["warnings"]
    assert "start_urls" in warning


@pytest.mark.long
def test_others_can_write_while_an_agents_warnings_are_looked_for(
    acme: Api, server: Server, monkeypatch: pytest.MonkeyPatch
):
    def look(_pipeline: str, transforms: dict[str, str], _plugins: object) -> list[str]:
        with open_session(server.settings) as session:
            create_organization(session, f"meanwhile {len(transforms)}")
        return ["called", *transforms]

    monkeypatch.setattr("core.definitions.agents.service.find_warnings", look)
    made = acme.post("/agents", {"name": "long", "pipelineYaml": PIPELINE})
    assert made["warnings"] == ["called"]
    registered(acme, made["id"])
    assert acme.put(f"/agents/none/{made['id']}", {"description": "d"})["warnings"] == ["called", "shout"]


def test_an_execution_is_refused_until_the_function_is_registered(acme: Api):
    job = acme.job("refused", pipeline=PIPELINE)
    status, sentence, _ = refusal(acme, "POST", f"{job.path}/execute", {})
    assert status == 400
    assert "unknown row transform 'Shout'" in sentence
    registered(acme, job.agent_id)
    assert job.execute()


def test_the_supported_types_and_limits_are_listed(acme: Api):
    assert acme.get(f"{ROOM}/supported-types") == ["row_transform"]
    assert acme.get(f"{ROOM}/info") == {
        "supportedTypes": ["row_transform"],
        "provided": [],
        "maxFunctionBytes": 65536,
        "rowSeconds": 10,
        "rowMemoryMib": 512,
    }


@pytest.mark.long
def test_a_script_calls_the_function_for_each_row_of_a_file(acme: Api, agent: str, tmp_path: Path):
    code = acme.post(f"{ROOM}/{registered(acme, agent)}/generate-pyspark")["code"]
    (tmp_path / "script.py").write_text(code)
    (tmp_path / "rows.csv").write_text("title\nkettle\n")
    environment = {
        "INPUT_PATH": str(tmp_path / "rows.csv"),
        "ARG_mark": "?",
        "PYTHONPATH": str(Path(__file__).parents[2]),
    }

    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **environment},
        check=False,
    )  # fmt: skip
    assert "|KETTLE?|" in ended.stdout, ended.stderr


def test_environment_variables_of_scripts_are_separate(acme: Api, agent: str):
    text = "def f(row, path, home, input_path, a, A): return row"
    code = acme.post(f"{ROOM}/{registered(acme, agent, function=text)}/generate-pyspark")["code"]
    taken = set(re.findall(r'os\.environ\["(\w+)"\]', code))
    assert taken == {"INPUT_PATH", "ARG_path", "ARG_home", "ARG_input_path", "ARG_a", "ARG_A"}


@pytest.mark.parametrize("name", ["1st", "🙂", "\u2028y", "\ufffe", "'\"\\", "a:b"])
def test_every_name_that_can_be_registered_has_a_script(acme: Api, agent: str, name: str):
    code = acme.post(f"{ROOM}/{registered(acme, agent, name=f'a{name}')}/generate-pyspark")["code"]
    names: dict[str, Any] = {"__name__": "script"}
    exec(code, names)
    assert names["pipeline"].plan({"INPUT_PATH": "x", "ARG_mark": "!"}, Transforms({f"a{name}": SHOUT})).steps


def test_characters_that_cannot_be_sent_are_replaced_in_messages():
    told = Validation(valid=False, errors=["a\ud800"]), build_processed_text(ProcessedPipeline([], ["a\ud800"], None))
    assert (told[0].errors, told[1].warnings) == (["a?"], ["a?"])


class TestProcessedText:
    def test_functions_of_a_pipeline_are_listed_and_are_in_its_script(self, acme: Api):
        done = acme.post(f"{ROOM}/process-yaml", {"pipelineYaml": INLINE + PIPELINE})
        [function] = done["extensions"]
        assert function == {"name": "shout", "extensionType": "row_transform", "function": SHOUT}
        assert done["warnings"] == []
        assert SHOUT in done["code"]
        assert 'stage("python_row_transform:Shout", mark="!")' in done["code"]

    def test_the_listed_functions_can_be_registered(self, acme: Api, agent: str):
        [function] = acme.post(f"{ROOM}/process-yaml", {"yaml": INLINE + PIPELINE})["extensions"]
        assert acme.post(f"/agents/{agent}/python-extensions", function).items() >= function.items()

    def test_a_function_that_the_text_has_not_is_a_warning(self, acme: Api):
        done = acme.post(f"{ROOM}/process-yaml", {"pipelineYaml": PIPELINE})
        assert (done["extensions"], done["warnings"]) == ([], UNKNOWN)

    def test_functions_need_no_pipeline(self, acme: Api):
        done = acme.post(f"{ROOM}/process-yaml", {"pipelineYaml": INLINE})
        assert ([each["name"] for each in done["extensions"]], done["code"]) == (["shout"], None)

    def test_a_name_that_is_null_counts_as_left_out(self, acme: Api):
        done = acme.post(f"{ROOM}/process-yaml", {"pipelineYaml": None, "yaml": INLINE + PIPELINE, "code": None})
        assert done == acme.post(f"{ROOM}/process-yaml", {"pipelineYaml": INLINE + PIPELINE})
        text = INLINE.replace("type: row_transform", "type: null")
        assert acme.post(f"{ROOM}/process-yaml", {"code": text})["extensions"][0]["extensionType"] == "row_transform"

    def test_the_body_may_be_the_pipeline_itself(self, acme: Api):
        pipeline = yaml.safe_load(INLINE + PIPELINE)
        said = acme.post(f"{ROOM}/process-yaml", {"yaml": INLINE + PIPELINE})
        assert acme.post(f"{ROOM}/process-yaml", pipeline) == said
        assert acme.post(f"{ROOM}/process-yaml", {**pipeline, "output": None, "yaml": None}) == said
        alone = acme.post(f"{ROOM}/process-yaml", yaml.safe_load(INLINE))
        assert (alone["extensions"], alone["code"]) == (said["extensions"], None)

    @pytest.mark.parametrize(
        "mark", ["yes", "1e3", "a\x85b", " \u2028 ", "\x7f", "\ufffe", "🙂", "\n'\"\\\t", 0.5, True]
    )
    def test_of_a_pipeline_in_the_body_every_value_stays(self, acme: Api, mark: object):
        pipeline = yaml.safe_load(INLINE + PIPELINE)
        pipeline["pipeline"][1]["args"]["mark"] = mark
        names: dict[str, Any] = {"__name__": "script"}
        exec(acme.post(f"{ROOM}/process-yaml", pipeline)["code"], names)
        steps = names["pipeline"].plan(transforms=Transforms({"shout": SHOUT})).steps
        assert [each.stage.keywords for each in steps if isinstance(each.stage, PythonRowTransform)] == [{"mark": mark}]

    @pytest.mark.parametrize(
        "text",
        [
            "[" * 100_000,
            '{"pipeline": ' + "[" * 200 + "]" * 200 + "}",
            '{"pipeline": "\\ud800"}',
            '{"pipeline": 5}',
            '{"fetch": {"url": "http://127.0.0.1/"}}',
            "[]",
            "5",
            "null",
        ],
    )
    def test_a_body_that_is_no_pipeline_is_refused(self, acme: Api, text: str):
        response = acme.call("POST", f"{ROOM}/process-yaml", content=text)
        assert (response.status_code, bool(response.json()["error"])) == (400, True)

    @pytest.mark.parametrize(
        ("text", "sentence", "path"),
        [
            ("[a]", "a pipeline is a map", "line 1"),
            ("a", "a pipeline is a map", "line 1"),
            ("python_extensions: [a]", "'python_extensions' is not a map", "python_extensions"),
            ("python_extensions: a", "'python_extensions' is not a map", "python_extensions"),
            ('python_extensions: {stages: ""}', "'python_extensions.stages' is not a map", "python_extensions.stages"),
            ("python_extensions: {stages: {ab: {function: 'def ab(r): ...'}, A_B: {function: 'def ab(r): ...'}}}",
             "'A_B' and 'ab' are one name", "python_extensions.stages.A_B"),
            ('python_extensions: {stages: {"a ": {function: "def a(r): ..."}}}', "no white space at its ends",
             "python_extensions.stages.a .name"),
            ("pipeline: {", "not valid YAML", "line "),
            ("pipeline: [{stage: extracts}]", "unknown stage 'extracts'", "line 1"),
            ("python_extensions: {stages: [a]}", "is not a map", "python_extensions.stages"),
            ("python_extensions: {stages: {a: 5}}", "a.function", "python_extensions.stages.a.function"),
            ("python_extensions: {stages: {a: {function: x}}}", "no function 'a'",
             "python_extensions.stages.a.function"),
            ("python_extensions: {stages: {a: {type: x, function: 'def a(r): ...'}}}", "type 'x'",
             "python_extensions.stages.a.extensionType"),
            (INLINE + PIPELINE.replace("mark", "sign"), "unknown argument 'sign'", "line 11"),
        ],
    )  # fmt: skip
    def test_errors_name_the_line_or_the_field(self, acme: Api, text: str, sentence: str, path: str):
        status, told, paths = refusal(acme, "POST", f"{ROOM}/process-yaml", {"pipelineYaml": text})
        assert status == 400
        assert sentence in told
        assert paths[0].startswith(path)


PLACES = [
    "{0}\ndef f(row): return row\n",
    "def f(row): return row\n{0}\n",
    "@{0}\ndef f(row): return row\n",
    "def f(row, x={0}): return row\n",
    "def f(row, *, x={0}): return row\n",
    "def f(row: {0}): return row\n",
    "def f(row) -> {0}: return row\n",
    "def f(row) -> {{'a': {0}}}: return row\n",
    "def f(row) -> {{{0}: int}}: return row\n",
    "def f(row) -> dict[{0}]: return row\n",
    "def f(row) -> (int | {0}): return row\n",
    "def f(row): {0}\n",
    "def f(row): return [{0} for _ in row]\n",
    "class R(dict, metaclass={0}): ...\ndef f(row) -> R: return row\n",
    "class R({0}): ...\ndef f(row) -> R: return row\n",
    "from typing import TypedDict\nclass R(TypedDict):\n    a: {0}\ndef f(row) -> R: return row\n",
    "from typing import TypedDict\nclass R(TypedDict):\n    {0}\ndef f(row) -> R: return row\n",
    "from dataclasses import dataclass\n@dataclass\nclass R:\n    a: int = {0}\ndef f(row) -> R: return row\n",
    "@{0}\nclass R(dict): ...\ndef f(row) -> R: return row\n",
    "x: {0} = 1\ndef f(row): return row\n",
    "if {0}: pass\ndef f(row): return row\n",
    "with {0} as x: pass\ndef f(row): return row\n",
    "for x in {0}: pass\ndef f(row): return row\n",
    "assert {0}\ndef f(row): return row\n",
    "f = {0}\ndef f(row): return f'{{{0}}}'\n",
]
WRITES = [
    "open(SIGN, 'w')",
    "__import__('pathlib').Path(SIGN).touch()",
    "__import__('os').system('touch ' + SIGN)",
    "__import__('os').open(SIGN, 64)",
    "__import__('os').mkdir(SIGN)",
    "__import__('subprocess').run(['touch', SIGN])",
    "__import__('importlib').import_module('os').mkdir(SIGN)",
    "eval('open(SIGN, 1)'.replace('1', repr('w')))",
    "exec('open(SIGN, chr(119))')",
    "(lambda: open(SIGN, 'w'))()",
    "[open(SIGN, 'w') for _ in 'x']",
    "{open(SIGN, 'w'): 1}",
    "(open)(SIGN, mode='w')",
    "(x := open(SIGN, 'w'))",
    "type('R', (), {'__del__': lambda s: open(SIGN, 'w')})()",
    "print(1, file=open(SIGN, 'w'))",
    "globals()['__builtins__']['open'](SIGN, 'w')",
    "getattr(__import__('builtins'), 'op' + 'en')(SIGN, 'w')",
    "compile('open(SIGN, chr(119))', 'x', 'exec')",
    "().__class__.__base__.__subclasses__()[0](open(SIGN, 'w'))",
]


@pytest.mark.parametrize("place", PLACES)
def test_500_texts_are_checked_and_none_is_run(reader: Api, place: str, tmp_path: Path):
    sign = tmp_path / "ran"
    assert len(PLACES) * len(WRITES) == 500
    for write in WRITES:
        text = place.format(write.replace("SIGN", repr(str(sign))))
        inline = json.dumps({"python_extensions": {"stages": {"f": {"function": text}}}})
        verdict = reader.post(f"{ROOM}/validate", {"name": "f", "function": text})
        processed = reader.call("POST", f"{ROOM}/process-yaml", json={"pipelineYaml": inline})
        assert verdict["valid"] is processed.is_success
        assert bool(verdict["errors"]) is not verdict["valid"]
    assert list(tmp_path.iterdir()) == []


def test_a_draft_without_columns_is_accepted_with_a_warning(acme: Api):
    text = 'fetch: {url: "http://127.0.0.1/"}\npipeline: []\n'
    [warning] = acme.post("/agents", {"name": "Draft", "pipelineYaml": text})["warnings"]
    assert "url, status and title" in warning
