"""The measurements of the checks of a run, which its report has, and the requests of later runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]


@dataclass(frozen=True, slots=True)
class Figures:
    """The measurements of the checks of one run: the rows, and the share of rows with a value by checked column."""

    rows: Int64
    filled: Mapping[str, float] = field(default_factory=dict[str, float])
