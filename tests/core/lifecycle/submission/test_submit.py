from __future__ import annotations

import pytest

from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.agents.repository import AgentRepository
from core.definitions.identity.organizations import get_organization
from core.errors import BadInput, Conflict, NotFound, SpindleError, TooMany
from core.lifecycle.executions.outbox import fetch_due
from core.lifecycle.executions.reports import fail
from core.tables import Execution, Job, Task, now
from core.tables.states import State
from tests.support.cases import each_case
from tests.support.shop import PIPELINE, Shop


def test_accepted_means_execution_task_slot_and_launch(shop: Shop) -> None:
    execution = shop.submit()
    with shop.database.read() as session:
        stored = session.get_one(Execution, execution.id)
        task = session.get_one(Task, stored.task_id)
        job = session.get_one(Job, shop.job_id)
        messages = fetch_due(session, now())
    assert (stored.state, stored.attempt, stored.agent_revision) == ("PENDING", 1, 1)
    assert (task.name, task.execution_id) == ("Books #1", execution.id)
    assert (job.latest_execution_id, job.execution_count) == (execution.id, 1)
    assert [(message.execution_id, message.attempt) for message in messages] == [(execution.id, 1)]
    assert shop.active() == 1


def test_the_pipeline_is_frozen(shop: Shop) -> None:
    execution = shop.submit()
    shop.write_pipeline(PIPELINE.replace("h1", "h2"))
    assert shop.reload(execution).pipeline_yaml == PIPELINE
    assert shop.reload(shop.submit()).agent_revision == 2


def test_an_execution_stores_the_steps_of_its_plan(shop: Shop) -> None:
    steps = shop.reload(shop.submit()).steps
    assert [step.key for step in steps] == ["s01_fetch", "s02_extract", "s03_output"]
    assert (steps[1].title, steps[1].pass_number, steps[1].line) == ("extract title", 1, 3)


def test_an_execution_beyond_the_tenth_is_refused_and_leaves_nothing(shop: Shop) -> None:
    executions = [shop.submit() for _ in range(10)]
    with pytest.raises(TooMany, match="10 executions") as refused:
        shop.submit()
    assert refused.value.retry_after > 0
    with shop.database.read() as session:
        assert session.get_one(Job, shop.job_id).execution_count == 10
        assert session.query(Task).count() == session.query(Execution).count() == 10
    fail(shop.database, executions[0].id, "It broke.")
    shop.submit()


def test_projects_have_slots_of_their_own(shop: Shop, other_shop: Shop) -> None:
    for _ in range(10):
        shop.submit()
    other_shop.submit()
    assert (shop.active(), other_shop.active()) == (10, 1)


@pytest.mark.parametrize(
    ("job", "agent", "sentence"),
    [
        ({"enabled": False}, AgentUpdate(), "This job is disabled"),
        ({}, AgentUpdate(enabled=False), "agent of this job is disabled"),
        ({"parameters": {"cluster": {"executors": 2}}}, AgentUpdate(), "drivers of this service are no pods"),
    ],
)
def test_executing_an_unfit_job_is_a_conflict(
    shop: Shop, job: dict[str, object], agent: AgentUpdate, sentence: str
) -> None:
    with shop.database.write() as session:
        AgentRepository(session, shop.organization_id).update(shop.agent_id, agent)
    shop.change_job(**job)
    with pytest.raises(Conflict, match=sentence):
        shop.submit()
    assert shop.active() == 0


def test_a_job_without_agent_or_pipeline_is_a_conflict(shop: Shop) -> None:
    with shop.database.write() as session:
        empty = AgentRepository(session, shop.organization_id).create(AgentCreate(name="Empty")).id
    for agent, lacking in ((None, "no agent"), (empty, "no pipeline")):
        with pytest.raises(Conflict, match=lacking):
            shop.add_job(lacking, agent_id=agent).submit()


def test_python_code_without_a_pipeline_is_accepted_and_fails_with_a_sentence(shop: Shop) -> None:
    shop.write_code("print('hello')")
    execution = shop.reload(shop.submit())
    assert execution.state == State.FAILED
    assert "it assigns no Pipeline.of(...) to the name pipeline" in (execution.error_message or "")
    assert shop.active() == 0
    with shop.database.read() as session:
        assert fetch_due(session, now()) == []


def test_python_code_gets_the_arguments_of_its_execution(shop: Shop) -> None:
    code = """import sys
pipeline = Pipeline.of(stages=[stage("wget", f"http://{[*sys.argv, 'a'][1]}/")])
"""
    shop.write_code(code)
    assert "http://a/" in shop.reload(shop.submit()).pipeline_yaml
    execution = shop.reload(shop.submit(arguments=["toys"]))
    assert ("http://toys/" in execution.pipeline_yaml, execution.arguments) == (True, [])


def test_another_organizations_job_is_an_unknown_job(shop: Shop, other_shop: Shop) -> None:
    told: list[SpindleError] = []
    for job_id in (other_shop.job_id, "01a1fdfc-0000-7000-8000-000000000000", "\0", "x" * 500):
        shop.job_id = job_id
        with pytest.raises(NotFound) as error:
            shop.submit()
        told.append(error.value)
    assert {error.sentence for error in told} == {"There is no job with this id."}


PARAMETERS = """\
pipeline:
  - {stage: wget, args: ["${URL}"]}
  - {stage: extract, args: [{selector: "${SELECTOR}", method: text, as: "${COLUMN}"}]}
"""


def test_parameters_come_from_the_nearest_place_that_sets_them(shop: Shop) -> None:
    shop.write_pipeline(PARAMETERS)
    shop.change_project(parameters={"URL": "http://project/", "SELECTOR": "project", "COLUMN": "project"})
    shop.change_job(parameters={"SELECTOR": "job", "COLUMN": "job"})
    execution = shop.submit(parameters={"COLUMN": "body"}, arguments=["SELECTOR=a[rel=next]", "COLUMN=no", "--flag"])
    assert execution.parameters == {"URL": "http://project/", "SELECTOR": "a[rel=next]", "COLUMN": "body"}


def test_every_missing_parameter_is_listed_with_its_line(shop: Shop) -> None:
    shop.write_pipeline(PARAMETERS)
    with pytest.raises(BadInput) as error:
        shop.submit(parameters={"SELECTOR": "h1"})
    assert [detail.path.partition(",")[0] for detail in error.value.details] == ["line 2", "line 3"]
    assert "URL" in error.value.details[0].message
    assert "COLUMN" in error.value.details[1].message
    assert shop.active() == 0


def test_built_in_parameters(shop: Shop) -> None:
    names = ["EXECUTION_ID", "JOB_ID", "PROJECT_ID", "RUN_DATE", "OUTPUT_PATH", "OUTPUT_Images"]
    query = "&".join(f"${{{name}}}" for name in names)
    shop.write_pipeline(f"fetch: {{url: 'http://127.0.0.1/?{query}'}}\n{PIPELINE.partition(chr(10))[2]}")
    execution = shop.submit()
    assert execution.parameters == {
        "EXECUTION_ID": execution.id,
        "JOB_ID": shop.job_id,
        "PROJECT_ID": shop.project_id,
        "RUN_DATE": execution.created_at.date().isoformat(),
        "OUTPUT_PATH": "spindle://shop/output_path",
        "OUTPUT_Images": "spindle://shop/output_images",
    }


def test_allowed_environment_variables_come_last(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.write_pipeline(PARAMETERS)
    for name in ("URL", "SELECTOR", "COLUMN"):
        monkeypatch.setenv(name, f"environment-{name.lower()}")
    shop.settings = shop.settings.replace(parameter_environment=("URL", "SELECTOR", "UNSET"))
    given = {"URL": "http://body/", "COLUMN": "body"}
    execution = shop.submit(parameters=given)
    assert execution.parameters == {**given, "SELECTOR": "environment-selector"}
    with pytest.raises(BadInput, match="COLUMN"):
        shop.submit(parameters={"URL": "http://body/"})


def test_a_parameter_that_the_pipeline_does_not_have_is_refused_with_similar_names(shop: Shop) -> None:
    shop.write_pipeline(PARAMETERS)
    given = {"URL": "http://body/", "SELECTOR": "h1", "COLUMN": "body"}
    for request in ({"parameters": {**given, "SELECTR": "h2"}}, {"parameters": given, "arguments": ["SELECTR=h2"]}):
        with pytest.raises(BadInput, match=r"SELECTR.*SELECTOR") as error:
            shop.submit(**request)
        assert [each.code for each in error.value.details] == ["unknown-parameter"]


def test_an_unknown_parameter_is_named_in_the_log_where_old_clients_send_it_or_a_schedule_does(shop: Shop) -> None:
    given = {"parameters": {"NOPE": 1, "limit": 3}, "arguments": ["word", "NO=1"]}
    assert shop.submit(**given, trigger="schedule").arguments == ["word", "NOPE", "NO"]
    shop.settings = shop.settings.replace(unknown_parameters="warn")
    assert shop.submit(**given).arguments == ["word", "NOPE", "NO"]


@each_case(("given", "limit"), [({}, None), ({"limit": 5}, 5), ({"limit": "7"}, 7), ({"limit": 0}, 0)])
def test_the_parameter_limit_caps_the_rows(shop: Shop, given: dict[str, object], limit: int | None) -> None:
    assert shop.submit(parameters=given).row_limit == limit


@each_case("limit", [-1, 1.5, True, "many", [], {}, "²"])
def test_another_limit_is_refused(shop: Shop, limit: object) -> None:
    with pytest.raises(BadInput, match="whole number"):
        shop.submit(parameters={"limit": limit})


@each_case("value", ["\0", "\ud800", float("nan"), {"deep": ["\0"]}])
def test_parameters_that_cannot_be_stored_are_refused(shop: Shop, value: object) -> None:
    with pytest.raises(BadInput, match="parameters"):
        shop.submit(parameters={"X": value})


def test_scripts_in_pages_are_for_organizations_that_the_operator_lists(shop: Shop) -> None:
    trace = "{action: evaluate, params: {script: '1', as: one}}"
    shop.write_pipeline(f"fetch: {{url: 'http://a.test/', traces: [{trace}]}}\npipeline: []\n")
    with pytest.raises(BadInput, match="SPINDLE_SCRIPTS") as error:
        shop.submit()
    assert [each.code for each in error.value.details] == ["script-not-allowed"]
    with shop.database.read() as session:
        slug = get_organization(session, shop.organization_id).slug
    for listed in (slug, "*"):
        shop.settings = shop.settings.replace(scripts=(listed,))
        shop.submit()
