"""Operations on the stations of an organization."""

from pydantic import BaseModel
from sqlalchemy import Column, MetaData, String, Table, insert, select

from spindle.rest import CallerOf, RestError, Router

stations = Table("weather_stations", MetaData(), Column("organization_id", String(36)), Column("place", String(200)))
router = Router()


class Station(BaseModel):
    """A station."""

    place: str


@router.add("GET", "/stations", scope="etl:read", summary="List the stations")
def list_stations(caller: CallerOf) -> list[Station]:
    """Return the organization's stations by place."""
    own = select(stations.c.place).where(stations.c.organization_id == caller.organization_id)
    with caller.read() as session:
        return [Station(place=place) for place in session.scalars(own.order_by(stations.c.place))]


@router.add("POST", "/stations", scope="etl:write", summary="Add a station")
def add_station(body: Station, caller: CallerOf) -> Station:
    """Store a station of the organization."""
    if len(list_stations(caller)) >= caller.settings.max_stations:
        sentence = f"The organization has {caller.settings.max_stations} stations already. Remove one first."
        raise RestError(409, sentence, "station-limit")
    with caller.write() as session:
        session.execute(insert(stations).values(organization_id=caller.organization_id, place=body.place))
    return body


@router.add("GET", "/projects", scope="etl:read", summary="List the names of the projects")
def list_project_names(caller: CallerOf) -> list[str]:
    """Return the names of the organization's projects, which the service lists in the caller's name."""
    return [each["name"] for each in caller.request("GET", "projects").json()]
