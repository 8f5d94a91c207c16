"""Packages of agents: allowed by the operator, locked before the transaction, kept in revisions and executions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from shutil import rmtree

import pytest
from pydantic import SecretStr

from core.definitions.agents import service as agents
from core.definitions.agents.models import AgentCreate, AgentUpdate
from core.definitions.identity.organizations import create_organization
from core.errors import BadInput, SpindleError, Unavailable
from core.infra.environments import FOLDER
from core.integrations.declarations import service as declarations
from core.integrations.declarations.models import Declaration
from core.tables import Agent
from tests.support.shop import PIPELINE, Shop
from tests.support.wheels import write_library


@pytest.fixture
def store(shop: Shop, tmp_path: Path) -> Shop:
    """A shop whose index is a folder of wheels."""
    return with_index(shop, tmp_path / "wheels", write_library(tmp_path / "wheels", "adder", "ONE = 1\n"))


def with_index(shop: Shop, index: Path, *packages: str) -> Shop:
    settings = shop.settings.replace(package_index=SecretStr(str(index)))
    return replace(shop, settings=settings)


def name_packages(packages: str) -> str:
    return f"{PIPELINE.rstrip()}\nspindle: {{packages: [{packages}]}}\n"


def update(shop: Shop, **changes: str) -> Agent:
    new = AgentUpdate(**changes)  # type: ignore[arg-type]
    return agents.update(shop.database, shop.settings, shop.caller, "none", shop.agent_id, new, ()).value.agent


def load_lock(shop: Shop) -> tuple[int, str | None]:
    with shop.database.read() as session:
        agent = session.get_one(Agent, shop.agent_id)
        return agent.revision, agent.package_lock


def read_error(error: SpindleError) -> tuple[int, str, str]:
    return error.status, error.details[0].code, error.details[0].path


def test_an_execution_keeps_the_lock_of_its_revision(store: Shop) -> None:
    update(store, pipeline_yaml=name_packages("adder==1.0"))
    revision, lock = load_lock(store)
    assert lock is not None
    assert "adder==1.0 \\\n    --hash=sha256:" in lock
    execution = store.submit()
    assert (execution.agent_revision, execution.package_lock) == (revision, lock)
    update(store, pipeline_yaml=PIPELINE)
    assert load_lock(store) == (revision + 1, None)
    assert store.reload(execution).package_lock == lock


def test_unchanged_packages_keep_their_lock_without_an_index(store: Shop, tmp_path: Path) -> None:
    update(store, pipeline_yaml=name_packages("adder==1.0"))
    _, lock = load_lock(store)
    lost = with_index(store, tmp_path / "lost")
    update(lost, pipeline_yaml=f"{name_packages('adder==1.0')}# changed\n")
    assert load_lock(store)[1] == lock
    document = Declaration.model_validate({"agents": [{"name": "Other", "pipeline": name_packages("adder==1.0")}]})
    declarations.apply(lost.database, lost.settings, lost.caller, document)
    before = load_lock(store)
    with pytest.raises(Unavailable) as error:
        update(lost, pipeline_yaml=name_packages("other==1.0"), description="changed")
    assert read_error(error.value) == (503, "index-unavailable", "spindle.packages")
    assert load_lock(store) == before


def test_a_script_names_packages_too(store: Shop) -> None:
    new = AgentCreate(name="Script", pipeline_yaml=name_packages("adder==1.0"))
    made = agents.create(store.database, store.settings, store.caller, new).value
    assert made.pyspark_code is not None
    document = Declaration.model_validate({"agents": [{"name": "Copy", "code": f"{made.pyspark_code}\n# by hand\n"}]})
    declarations.apply(store.database, store.settings, store.caller, document)
    with store.database.read() as session:
        locks = {each.name: each.package_lock for each in session.query(Agent)}
    assert locks["Script"] is not None
    assert locks["Copy"] == locks["Script"]


@pytest.mark.parametrize(
    ("packages", "code"),
    [("adder==9", "unknown-package"), ("adder>=1", "inexact-package"), ("'adder==${V}'", "inexact-package")],
)
def test_a_package_that_cannot_be_had_stores_nothing(store: Shop, packages: str, code: str) -> None:
    before = load_lock(store)
    with pytest.raises(BadInput) as error:
        update(store, pipeline_yaml=name_packages(packages))
    assert read_error(error.value)[1] == code
    assert read_error(error.value)[2].startswith("line ")
    assert load_lock(store) == before


def test_the_operator_allows_packages_where_there_are_several_organizations(store: Shop) -> None:
    update(store, pipeline_yaml=name_packages("adder==1.0"))
    with store.database.write() as session:
        create_organization(session, "second")
    with pytest.raises(BadInput) as error:
        update(store, pipeline_yaml=f"{name_packages('adder==1.0')}# changed\n")
    assert read_error(error.value)[1] == "package-not-allowed"
    assert read_error(error.value)[2].startswith("line ")
    with pytest.raises(BadInput) as error:  # also for an agent that is there already
        store.submit()
    assert read_error(error.value)[1] == "package-not-allowed"
    allowing = store.settings.replace(packages=("Adder",))
    assert replace(store, settings=allowing).submit().package_lock is not None


CODE = """\
import sys
import adder

PACKAGES = ["adder==1.0"]
stages = [stage("wget", f"http://{each}/") for each in (adder.ONE, *sys.argv[1:])]
pipeline = Pipeline.of(stages=stages, spindle={"packages": PACKAGES})
"""


def test_a_python_code_imports_the_packages_that_it_names(store: Shop) -> None:
    agent = update(store, code=CODE)
    assert "http://1/" in (agent.pipeline_yaml or "")
    _, lock = load_lock(store)
    assert lock is not None
    execution = store.submit(arguments=["toys"])
    assert "http://1/" in execution.pipeline_yaml
    assert "http://toys/" in execution.pipeline_yaml
    assert execution.package_lock == lock
    rmtree(store.settings.data / FOLDER)  # installed anew where it is missing, of the same files
    assert store.submit(arguments=["toys"]).package_lock == lock
    with pytest.raises(BadInput) as error:  # without the name there is no package
        update(store, code=CODE.replace("spindle=", "output="))
    assert [each.path for each in error.value.details] == ["line 6, column 31", "line 2"]
    assert "ModuleNotFoundError: No module named 'adder'" in error.value.details[1].message


@pytest.mark.parametrize(
    ("packages", "code"), [("adder==9", "unknown-package"), ("adder", "inexact-package"), ("x==1", "unknown-package")]
)
def test_a_package_that_a_code_cannot_have_is_located_in_the_code(store: Shop, packages: str, code: str) -> None:
    before = load_lock(store)
    with pytest.raises(BadInput) as error:
        update(store, code=CODE.replace("adder==1.0", packages))
    assert read_error(error.value) == (400, code, "line 4, column 13")
    assert load_lock(store) == before


def test_packages_of_a_code_are_allowed_by_the_operator_too(store: Shop) -> None:
    update(store, code=CODE)
    with store.database.write() as session:
        create_organization(session, "second")
    with pytest.raises(BadInput) as error:
        update(store, code=f"{CODE}# changed\n")
    assert read_error(error.value) == (400, "package-not-allowed", "line 4, column 13")
    with pytest.raises(BadInput) as error:
        store.submit(arguments=["toys"])
    assert read_error(error.value)[1] == "package-not-allowed"
