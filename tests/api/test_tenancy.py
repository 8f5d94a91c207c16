"""Another organization's records are answered exactly like records that do not exist, by every operation there is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import httpx
import pytest
from fastapi import APIRouter, FastAPI
from sqlalchemy import select

from api.app import create_app
from api.kit.auth import KeyRoute, Reader, Writer
from api.kit.errors import answers
from api.kit.schemas import Body, ProjectId
from api.kit.services import ServicesOf
from core.errors import Forbidden, NotFound
from core.tables import Agent, Project
from tests.api.operations import OPERATIONS, Operation, operations_of
from tests.api.tenancy import Tenants
from tests.api.world import World, make_world
from tests.support.api import Server, running

OWN, FOREIGN = "our own records", "the rivals records"


@pytest.fixture(scope="module")
def foreign(server: Server) -> World:
    return make_world(server.caller("the rival", "admin"), FOREIGN)


@pytest.fixture(scope="module")
def tenants(server: Server, foreign: World) -> Tenants:
    caller = server.caller("the caller", "admin")
    return Tenants(caller, make_world(caller, OWN), foreign)


def test_another_organizations_records_are_unknown_records(tenants: Tenants):
    broken: list[str] = []
    for operation in OPERATIONS:
        try:
            tenants.check(operation)
        except AssertionError as wrong:
            broken.append(f"{operation}: {wrong}")
    assert broken == []


def test_both_worlds_are_untouched(tenants: Tenants, foreign: World, server: Server):
    api = server.caller("sees all", "super_admin")
    assert {each["name"] for each in api.get("/auth/organizations")} >= {"the rival", "the caller"}
    own = tenants.caller.get(f"/projects/id/{tenants.own['projectId']}/jobs/{tenants.own['jobId']}")
    assert (own["name"], own["agentId"]) == (OWN, tenants.own["agentId"])


def test_sql_reaches_no_table_of_another_organization(tenants: Tenants):
    query = tenants.caller.call("POST", "/datasets/query", json={"sql": f"SELECT * FROM {FOREIGN.replace(' ', '_')}.x"})
    assert query.status_code == 400


def reads_any_project(router: APIRouter) -> None:
    @router.get("/{projectId}", responses=answers(404))
    def read(project_id: ProjectId, _caller: Reader, services: ServicesOf) -> dict[str, str]:
        with services.database.read() as session:
            project = session.get(Project, project_id)
            if project is None:
                raise NotFound("There is no project with this id.")
            return {"name": project.name}


def tells_that_a_project_exists(router: APIRouter) -> None:
    @router.delete("/{projectId}", responses=answers(404))
    def remove(project_id: ProjectId, caller: Writer, services: ServicesOf) -> dict[str, str]:
        with services.database.read() as session:
            project = session.get(Project, project_id)
            if project is None:
                raise NotFound("There is no project with this id.")
            if project.organization_id != caller.organization_id:
                raise Forbidden("This project is another organization's.")
            return {}


def lists_all_projects(router: APIRouter) -> None:
    @router.get("")
    def read(_caller: Reader, services: ServicesOf) -> list[str]:
        with services.database.read() as session:
            return list(session.scalars(select(Project.id)))


def filters_by_any_project(router: APIRouter) -> None:
    @router.get("")
    def read(_caller: Reader, services: ServicesOf, projectId: str = "") -> int:
        with services.database.read() as session:
            return len(session.scalars(select(Project.id).where(Project.id == projectId)).all())


class _Reference(Body):
    agent_id: str | None = None


def refers_to_any_agent(router: APIRouter) -> None:
    @router.post("")
    def make(body: _Reference, _caller: Writer, services: ServicesOf) -> dict[str, str]:
        with services.database.read() as session:
            if session.get(Agent, body.agent_id) is None:
                raise NotFound("There is no agent with this id.")
        return {}


def addresses_a_new_noun(router: APIRouter) -> None:
    @router.get("/{gadgetId}", responses=answers(404))
    def read(gadgetId: str, _caller: Reader) -> None:
        raise NotFound(f"There is no gadget {gadgetId}.")


BROKEN = {
    reads_any_project: "tells another organization's projectId",
    tells_that_a_project_exists: "tells another organization's projectId",
    lists_all_projects: "shows another organization's .'projectId'",
    filters_by_any_project: "tells another organization's projectId",
    refers_to_any_agent: "tells another organization's agentId",
    addresses_a_new_noun: "makes no record that {gadgetId}",
}


@pytest.fixture(scope="module")
def broken_routes(server: Server) -> Iterator[tuple[httpx.Client, list[Operation]]]:
    """The service with broken routes more, each at its name."""
    app: FastAPI = create_app(server.settings)
    for broken in BROKEN:
        router = APIRouter(prefix=f"/api/svc/api/{broken.__name__}", route_class=KeyRoute)
        broken(router)
        app.include_router(router, generate_unique_id_function=lambda _, name=broken.__name__: name)
    with running(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield client, operations_of(app.openapi())


@pytest.mark.parametrize(("broken", "sentence"), BROKEN.items(), ids=[broken.__name__ for broken in BROKEN])
def test_a_route_without_an_organization_filter_fails_this_test(
    broken_routes: tuple[httpx.Client, list[Operation]],
    tenants: Tenants,
    broken: Callable[[APIRouter], None],
    sentence: str,
):
    client, operations = broken_routes
    [operation] = [each for each in operations if broken.__name__ in each.path]
    with pytest.raises(AssertionError, match=sentence):
        replace(tenants, caller=replace(tenants.caller, client=client)).check(operation)
