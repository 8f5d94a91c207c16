"""Parameters on the command line: NAME=value."""

from __future__ import annotations

import typer


def parameters(arguments: list[str]) -> dict[str, str]:
    """The values by name; raises typer.BadParameter for one without `=`."""
    values: dict[str, str] = {}
    for argument in arguments:
        name, equals, value = argument.partition("=")
        if not name or not equals:
            raise typer.BadParameter(f"'{argument}' is not of the form NAME=value")
        values[name] = value
    return values
