"""The records of a country: a project with a job, and an agent with the plugin's pipeline in a category of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Annotated, Any
from urllib.parse import quote

from fastapi import Path
from httpx import Response

from pipelines.browser import model as browsers
from spindle.rest import Caller, RestError

Json = dict[str, Any]
CountryName = Annotated[
    str, Path(pattern=r"^[a-z]+(?:[ _-][a-z]+)*$", max_length=60, description="Name of a country in small letters.")
]
PREFIX = "EAN images "
_CATEGORY = "EAN images"
_BROWSER_SERVICE = "STEEL_DEV"
_FALLBACK = "# No browser can be started here, so pages are fetched over HTTP instead of visited.\n"
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
    text = _make_pipeline(has_browser=find_missing_browser(caller) is None)
    values = {"name": title, "categoryId": category["id"], "pipelineYaml": text}
    agent = _ensure(caller, f"agents/{category['id']}/name/{quote(title)}", "agents", values)
    values = {"name": title, "agentId": agent["id"], "maxRetries": _RETRIES}
    job = call_service(caller, "POST", f"projects/id/{project['id']}/jobs", json=values)
    return Country(name, project["id"], job)


def find_missing_browser(caller: Caller) -> str | None:
    """Return why no browser can be started, as a sentence; None where there is one, or a service with a credential."""
    missing = browsers.find_missing_browser()
    if missing is None:
        return None
    credentials = call_service(caller, "GET", "cloud-credentials")
    if any(each["provider"] == _BROWSER_SERVICE and each["enabled"] for each in credentials):
        return None
    return f"{missing[:1].upper()}{missing[1:]}."


def choose_pipeline(caller: Caller, country: Country) -> None:
    """Give the country's agent the plugin's pipeline for the browser that there is; an edited one stays as it is."""
    found = [each for each in call_service(caller, "GET", "agents") if each["id"] == country.job["agentId"]]
    text = _make_pipeline(has_browser=find_missing_browser(caller) is None)
    own = {_make_pipeline(has_browser=each) for each in (True, False)}
    if not found or found[0]["pipelineYaml"] == text or found[0]["pipelineYaml"] not in own:
        return
    agent = found[0]
    values = {"name": agent["name"], "pipelineYaml": text}
    call_service(caller, "PUT", f"agents/{agent['categoryId']}/{agent['id']}", json=values)


def _make_pipeline(*, has_browser: bool) -> str:
    """Return the plugin's pipeline, which fetches pages over HTTP where no browser can be started."""
    text = files("plugins.ean_image_sourcing.pipelines").joinpath("images.yaml").read_text("utf-8")
    if has_browser:
        return text
    return _FALLBACK + text.replace("stage: visit,", "stage: wget,")


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
