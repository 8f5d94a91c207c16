"""The records of a country: a project with a job, and an agent with the plugin's pipeline in a category of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path
from httpx import Response

from spindle.rest import Caller, RestError

Json = dict[str, Any]
CountryName = Annotated[
    str, Path(pattern=r"^[a-z]+(?:[ _-][a-z]+)*$", max_length=60, description="Name of a country in small letters.")
]
PREFIX = "EAN images "
_CATEGORY = "EAN images"
_RETRIES = 2  # after a lost driver


@dataclass(frozen=True, slots=True)
class Country:
    """A country that has been set up, and its job as the service shows it."""

    name: str
    project_id: str
    job: Mapping[str, Any]

    @property
    def path(self) -> str:
        """The path of its job's operations."""
        return f"projects/id/{self.project_id}/jobs/{self.job['id']}"


def call_service(caller: Caller, method: str, path: str, **options: Any) -> Any:
    """Return the JSON of the service's answer; raise RestError with the service's own reason."""
    return _read(caller.request(method, path, **options))


def find_country(caller: Caller, name: str) -> Country | None:
    """Return a country of the organization; None before its first upload, execution or schedule."""
    project = _find(caller, f"projects/{quote(PREFIX + name)}")
    jobs = call_service(caller, "GET", f"projects/id/{project['id']}/jobs") if project else []
    job = next((each for each in jobs if each["name"] == PREFIX + name), None)
    return Country(name, project["id"], job) if project and job else None


def set_up_country(caller: Caller, name: str) -> Country:
    """Return the country, whose missing records are made."""
    found = find_country(caller, name)
    if found:
        return found
    title = PREFIX + name
    project = _ensure(caller, f"projects/{quote(title)}", "projects", {"name": title})
    category = _ensure(caller, f"categories/{quote(_CATEGORY)}", "categories", {"name": _CATEGORY})
    text = files("plugins.ean_image_sourcing.pipelines").joinpath("images.yaml").read_text("utf-8")
    values = {"name": title, "categoryId": category["id"], "pipelineYaml": text}
    agent = _ensure(caller, f"agents/{category['id']}/name/{quote(title)}", "agents", values)
    values = {"name": title, "agentId": agent["id"], "maxRetries": _RETRIES}
    job = call_service(caller, "POST", f"projects/id/{project['id']}/jobs", json=values)
    return Country(name, project["id"], job)


def get_country(caller: Caller, name: str) -> Country:
    """Return a country that has been set up; raise RestError for another one."""
    found = find_country(caller, name)
    if found is None:
        raise RestError(404, f"There is nothing for '{name}' yet: upload a CSV file of EANs first.", "not-found")
    return found


def list_countries(caller: Caller) -> list[Country]:
    """Return the countries of the organization by name."""
    titles = (str(each["name"]) for each in call_service(caller, "GET", "projects"))
    names = sorted(title.removeprefix(PREFIX) for title in titles if title.startswith(PREFIX))
    return [each for each in (find_country(caller, name) for name in names) if each]


def _find(caller: Caller, path: str) -> Json | None:
    answer = caller.request("GET", path)
    return None if answer.status_code == 404 else _read(answer)


def _ensure(caller: Caller, path: str, collection: str, values: Json) -> Json:
    """Return the record at the path, which is made where it is missing, perhaps by another request."""
    found = _find(caller, path)
    if found is not None:
        return found
    answer = caller.request("POST", collection, json=values)
    return call_service(caller, "GET", path) if answer.status_code == 409 else _read(answer)


def _read(answer: Response) -> Any:
    if answer.is_success:
        return answer.json() if answer.content else None
    body = answer.json()
    reason = body["details"][0]
    raise RestError(answer.status_code, body["error"], reason["code"], reason["path"])
