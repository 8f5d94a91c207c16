"""`spindle export`: write the records of a server as a spindle.yaml."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from cli.client import ClientError, Connection, connect


def export(connection: Connection, output: Path | None) -> int:
    """Write the file, or print it without `output`."""
    with connect(connection) as client:
        declaration = client.get("/export")
    text = yaml.dump(declaration, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000)
    if output is None:
        sys.stdout.write(text)
        return 0
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClientError(f"{output} cannot be written: {error.strerror}.") from None
    return 0


class _Dumper(yaml.SafeDumper):
    """A dumper that writes texts of several lines as block scalars."""


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)
