"""The number of the protocol between the service and its drivers.

The protocol is the spec, the variables of the environment, the messages through Dagster Pipes and the reports to the
completion webhook. An execution may have a driver of another build of the engine than the service's, whose number the
service reads from this file of the build, without importing it.
"""

from __future__ import annotations

import re

PROTOCOL = 4
"""Raise it with any change that a driver of the number before would misunderstand."""
OLDEST_PROTOCOL = 1
"""The oldest number whose drivers this service still understands."""
TRIALS_PROTOCOL = 2
"""The oldest number whose drivers run executions that do not publish."""
PARTITIONS_PROTOCOL = 3
"""The oldest number whose drivers add the columns of a partition."""
TABLE_PARTITIONS_PROTOCOL = 4
"""The oldest number whose drivers read and replace one partition of a table."""
FILE = "driver/protocol.py"
_NUMBER = re.compile(r"^PROTOCOL = (\d{1,6})$", re.MULTILINE)


def parse_protocol(source: str) -> int | None:
    """Return the number in the text of a build's file; None for a file without one."""
    found = _NUMBER.search(source)
    return int(found[1]) if found else None


def describe_mismatch(protocol: int | None) -> str | None:
    """Return why this service cannot give executions to drivers with this number; None where it can."""
    if protocol is None or protocol < OLDEST_PROTOCOL:
        number = "without a number" if protocol is None else f"{protocol}"
        return f"is too old: its drivers speak protocol {number}, and this service {OLDEST_PROTOCOL} or later"
    if protocol > PROTOCOL:
        return f"is too new: its drivers speak protocol {protocol}, and this service {PROTOCOL} or earlier"
    return None
