"""Reference of all settings, by area: `python -m core.infra.settings_reference > docs/settings.md`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic.fields import FieldInfo

from core.infra.settings import Settings

_INTRODUCTION = """\
# Settings

Environment variables, read once at start. Lists are comma separated, and pairs in them are `key=value`. A setting
without a default is unset. `spindle up` has options for the data folder, the ports and the host.

## Without a service too

`spindle run`, `try` and `check` read these, and so do drivers.

| variable | default | meaning |
|---|---|---|
| `SPINDLE_CHROMIUM` | the installed one | Browser of `visit*` and of trace actions. |
| `SPINDLE_BROWSER_PAGES` | `4` | Tabs of a worker's browser. |
| `SPINDLE_BROWSER_SERVICE` | `wss://connect.steel.dev` | Browser of executions with a STEEL_DEV credential. |
| `SPINDLE_JARS` | `~/.cache/spindle/jars` | Folder of Java libraries of [formats](formats.md), fetched at need. |
| `SPINDLE_MAVEN` | the mirror of `~/.m2/settings.xml`, or Ivy's own | Address of the Maven repository of these. |
"""
_AREAS: Mapping[str, Sequence[str]] = {  # the first words of the names
    "Storage and files": ("data", "storage", "s3", "upload", "removed", "page", "kept", "local_folders"),
    "API and Dagster": (
        *("host", "port", "api", "ui", "dagster", "root", "service", "tables", "public", "requests", "database"),
        *("migrate", "secret", "admin", "new_secret"),
    ),
    "Pages and parameters": ("fetch", "parameter", "unknown"),
    "Drivers": (
        "engine",
        "spare",
        "spark",
        "local_driver",
        "driver",
        "dagster_runs",
        "stop",
        "heartbeat",
        "lost",
        "hung",
    ),
    "Kubernetes": ("compute", "kubernetes"),
    "SQL": ("sql", "trino"),
    "Language models": ("model",),
    "Plugins and packages": ("plugin", "package"),
    "Costs": ("cloud", "prices", "driver_instance", "executor_instance"),
    "Trainings": ("trainer",),
}


def build_reference() -> str:
    """Return the page. Raises ValueError for a setting that no area has."""
    areas: dict[str, list[str]] = {name: [] for name in _AREAS}
    for name, field in Settings.model_fields.items():
        areas[_find_area(name)].append(
            f"| `SPINDLE_{name.upper()}` | {_describe_default(field)} | {field.description} |"
        )
    head = "| variable | default | meaning |\n|---|---|---|\n"
    sections = (f"\n## {area}\n\n{head}" + "".join(f"{row}\n" for row in rows) for area, rows in areas.items())
    return _INTRODUCTION + "".join(sections)


def _find_area(name: str) -> str:
    fitting = [
        (len(word), area) for area, words in _AREAS.items() for word in words if f"{name}_".startswith(f"{word}")
    ]
    if not fitting:
        raise ValueError(f"no area has the setting '{name}'")
    return max(fitting)[1]


def _describe_default(field: FieldInfo) -> str:
    value: object = field.default
    if value is None or value in ((), ""):
        return ""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{','.join(map(str, value)) if isinstance(value, tuple) else value}`"  # pyright: ignore[reportUnknownArgumentType,reportUnknownVariableType]


def main() -> None:
    print(build_reference(), end="")


if __name__ == "__main__":
    main()
