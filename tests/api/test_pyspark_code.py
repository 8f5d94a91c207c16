"""pysparkCode: an agent's pipeline as the script that gives its rows."""

from __future__ import annotations

import json

import pytest
from sqlalchemy import update

from core.tables import Agent, PythonExtension
from pipelines.planning.script import make_script
from tests.support.api import Api, Server, open_session, read_code

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


def test_a_script_that_was_changed_by_hand_is_read_back(acme: Api):
    path = f"/agents/none/{acme.post('/agents', {'name': 'changed', 'pipelineYaml': PIPELINE})['id']}"
    acme.post(f"/agents/{path.rpartition('/')[2]}/python-extensions", {"function": SHOUT})
    script = acme.get(path)["pysparkCode"]
    changed = script.replace('"h1"', '"h2"').replace(".upper()", ".lower()").replace("pipeline = ", "pipeline = \\\n")
    read = acme.call("PUT", path, json={"code": changed}).json()
    assert "selector: h2" in read["pipelineYaml"]
    assert read["pysparkCode"] == script.replace('"h1"', '"h2"').replace(".upper()", ".lower()")
    assert read["code"] == read["pipelineYaml"]


def test_a_new_agent_takes_a_script_with_its_functions(acme: Api):
    script = make_script(PIPELINE, {"shout": SHOUT})
    agent = acme.post("/agents", {"name": "from a script", "code": script})
    assert agent["pysparkCode"] == script
    assert [each["name"] for each in acme.get(f"/agents/{agent['id']}/python-extensions")] == ["shout"]


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        ('"selector": "h1"', '"selector": "h" + 1', "line 13, column 39"),
        ('stage("extract"', 'stage("extrakt"', "pipeline[0].stage"),
        ("return {", "return {{", "pipeline[1]"),
    ],
)
def test_what_a_script_misspells_or_cannot_compute_is_refused_with_its_place(acme: Api, old: str, new: str, place: str):
    script = (make_script(PIPELINE, {"shout": SHOUT}) or "").replace(old, new)
    refused = acme.call("POST", "/agents", json={"name": "wrong", "code": script})
    assert (refused.status_code, refused.json()["details"][0]["path"]) == (400, place)


def test_an_agent_of_python_code_has_no_script(acme: Api):
    assert acme.post("/agents", {"name": "code", "code": "print(1)"})["pysparkCode"] is None


@pytest.mark.parametrize("text", ["fetch: [", "pipeline: [{stage: was_renamed}]", "pipeline: [{stage: [1]}]"])
def test_an_agent_whose_stored_text_is_no_pipeline_any_more_is_read(server: Server, text: str):
    older = server.caller(f"older {text}", "admin")
    agent = older.post("/agents", {"name": "older", "pipelineYaml": PIPELINE})
    with open_session(server.settings) as session:
        session.execute(update(Agent).where(Agent.id == agent["id"]).values(pipeline_yaml=text))
    read = older.get(f"/agents/none/{agent['id']}")
    assert (read["pipelineYaml"], read["pysparkCode"]) == (text, None)
    assert read in older.get("/agents")
    assert older.get("/package/export/all")["exportId"]
    assert older.call("PUT", f"/agents/none/{agent['id']}", json={"description": "x"}).status_code == 200


@pytest.mark.parametrize("text", ["def shout(row):\n    print row", "", "def shout(): return {}"])
def test_an_extension_whose_stored_text_is_not_right_any_more_is_read_and_mended(acme: Api, server: Server, text: str):
    agent = acme.post("/agents", {"name": "older", "pipelineYaml": PIPELINE})
    extension = acme.post(f"/agents/{agent['id']}/python-extensions", {"function": SHOUT})
    with open_session(server.settings) as session:
        stored = update(PythonExtension).where(PythonExtension.id == extension["id"])
        session.execute(stored.values(source=text))
    path = f"/python-extensions/{extension['id']}"
    assert acme.get(path)["function"] == text
    assert [each["function"] for each in acme.get(f"/agents/{agent['id']}/python-extensions")] == [text]
    assert acme.get(f"/agents/none/{agent['id']}")["pysparkCode"]
    refused = acme.call("POST", f"{path}/generate-pyspark")
    assert refused.status_code == 409
    assert refused.json()["error"].startswith("The function 'shout' cannot be used any more: ")
    assert refused.json()["details"][0]["path"] == "function"
    acme.call("PUT", path, json={"function": SHOUT})
    assert acme.post(f"{path}/generate-pyspark")["code"]


def test_a_notebook_has_the_parts_of_the_script_and_is_read_back(acme: Api, rival: Api):
    path = f"/agents/none/{acme.post('/agents', {'name': 'notebook', 'pipelineYaml': PIPELINE})['id']}"
    acme.post(f"/agents/{path.rpartition('/')[2]}/python-extensions", {"function": SHOUT})
    answer = acme.call("GET", f"{path}/notebook")
    assert answer.headers["content-type"].startswith("application/x-ipynb+json")
    assert answer.headers["content-disposition"].endswith('.ipynb"')
    notebook = answer.json()
    assert (notebook["nbformat"], [each["cell_type"] for each in notebook["cells"]]) == (4, ["markdown", *["code"] * 5])
    parts = ["".join(each["source"]) for each in notebook["cells"][1:]]
    script = acme.get(path)["pysparkCode"]
    assert "\n\n".join(parts).split() == script.partition("\n")[2].split(), "nothing but the introduction is left out"
    notebook["cells"][3]["source"] = parts[2].replace('"h1"', '"h2"')
    notebook["cells"].insert(1, {"cell_type": "code", "metadata": {}, "source": ["%pip install spindle\n"]})
    read = acme.call("PUT", path, json={"code": json.dumps(notebook)}).json()
    assert read["pysparkCode"] == script.replace('"h1"', '"h2"')
    assert rival.call("GET", f"{path}/notebook").status_code == 404


def test_python_that_computes_its_pipeline_is_kept_beside_it(acme: Api):
    code = (make_script(PIPELINE, {"shout": SHOUT}) or "").replace('"selector": "h1"', '"selector": f"h{1}"')
    agent = acme.post("/agents", {"name": "computes", "code": code})
    assert (agent["code"], agent.get("warnings", [])) == (code, [])
    assert "selector: h1" in agent["pipelineYaml"]
    assert [each["name"] for each in acme.get(f"/agents/{agent['id']}/python-extensions")] == ["shout"]
    path = f"/agents/none/{agent['id']}"
    again = acme.put(path, {**agent, "description": "whole"})
    assert (again["code"], again["pipelineYaml"]) == (code, agent["pipelineYaml"])
    assert acme.put(path, {"code": code.replace('f"h{1}"', 'f"h{2}"')})["pipelineYaml"].count("selector: h2") == 1
    wrong = acme.put(path, {"code": "x = 1 / 0"})
    assert wrong["pipelineYaml"] is None
    assert wrong["warnings"] == ["line 1: the Python code gives no pipeline: ZeroDivisionError: division by zero"]
    assert acme.put(path, {"pipelineYaml": PIPELINE})["code"] == PIPELINE


def test_an_agent_without_a_pipeline_has_no_notebook(acme: Api):
    agent = acme.post("/agents", {"name": "python", "code": "print(1)"})["id"]
    answer = acme.call("GET", f"/agents/none/{agent}/notebook")
    assert read_code(answer) == (409, "no-pipeline")
