"""pysparkCode: an agent's pipeline as the script that gives its rows."""

from __future__ import annotations

from tests.api.conftest import Api

PIPELINE = """
fetch: {url: "http://127.0.0.1/"}
pipeline:
  - {stage: extract, args: [{selector: h1, as: title}]}
  - {stage: "python_row_transform:shout"}
"""
SHOUT = "def shout(row):\n    return {'title': row['title'].upper()}\n"


def test_an_agent_shows_its_pipeline_as_a_script_with_its_functions(acme: Api):
    agent = acme.post("/agents", {"name": "script", "pipelineYaml": PIPELINE})
    assert 'stage("extract", {"selector": "h1", "as": "title"}),' in agent["pysparkCode"]
    acme.post(f"/agents/{agent['id']}/python-extensions", {"function": SHOUT})
    listed = next(each for each in acme.get("/agents") if each["id"] == agent["id"])
    assert f'FUNCTION_SHOUT = """{SHOUT}"""' in listed["pysparkCode"]


def test_an_agent_of_python_code_has_no_script(acme: Api):
    assert acme.post("/agents", {"name": "code", "code": "print(1)"})["pysparkCode"] is None
