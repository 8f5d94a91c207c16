"""What rules of the translation make and raise."""

from __future__ import annotations

from sqlglot import exp

from pipelines.errors import SqlError


def call(name: str, *arguments: exp.Expr | None) -> exp.Anonymous:
    return exp.Anonymous(this=name, expressions=[each.copy() for each in arguments if each is not None])


def refuse(what: str) -> SqlError:
    return SqlError(f"This engine does not have {what}.", code="unsupported-sql")
