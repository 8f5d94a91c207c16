"""Reference of all settings, by area: `python -m core.infra.settings_reference > docs/settings.md`."""

from __future__ import annotations

from pydantic.fields import FieldInfo

from core.infra.settings import PREFIX, get_areas

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


def build_reference() -> str:
    """Return the page."""
    head = "| variable | default | meaning |\n|---|---|---|\n"
    sections = (
        f"\n## {(area.__doc__ or '').rstrip('.')}\n\n{head}"
        + "".join(_describe(name, field) for name, field in area.model_fields.items())
        for area in get_areas().values()
    )
    return _INTRODUCTION + "".join(sections)


def _describe(name: str, field: FieldInfo) -> str:
    variable = f"{PREFIX}{field.alias or name}".upper()
    return f"| `{variable}` | {_describe_default(field)} | {field.description} |\n"


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
