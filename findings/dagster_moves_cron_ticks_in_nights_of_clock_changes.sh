#!/usr/bin/env bash
# Dagster's cron iterator passes over the first of two equal hours in autumn, and fires at an odd hour in spring.
#
# One would guess that `*/30 1 * * *` fires at the first 1:00 of the autumn night of New York, in which the clock goes from
# 2:00 back to 1:00: it waits an hour, and fires in the second one alone. One would guess that `0 */2 * * *`, the even
# hours, passes over the spring night's 2:00, which does not exist: it fires at 3:00 instead, and an hour later again.
set -eu
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q dagster==1.13.27
"$folder/venv/bin/python" - <<'PYTHON'
from datetime import datetime
from itertools import islice
from zoneinfo import ZoneInfo

import dagster
from dagster._utils.schedules import cron_string_iterator

ZONE = "America/New_York"
print("dagster", dagster.__version__)


def list_times(cron: str, day: datetime, count: int) -> list[str]:
    ticks = cron_string_iterator(day.timestamp(), cron, ZONE)
    return [tick.astimezone(ZoneInfo(ZONE)).strftime("%d %H:%M %Z") for tick in islice(ticks, count)]


autumn = list_times("*/30 1 * * *", datetime(2026, 11, 1, tzinfo=ZoneInfo(ZONE)), 4)
spring = list_times("0 */2 * * *", datetime(2026, 3, 8, tzinfo=ZoneInfo(ZONE)), 4)
print("*/30 1 * * * :", autumn)
print("0 */2 * * *  :", spring)
assert autumn == ["01 01:00 EST", "01 01:30 EST", "02 01:00 EST", "02 01:30 EST"], "the behaviour has changed"
assert spring == ["08 00:00 EST", "08 03:00 EDT", "08 04:00 EDT", "08 06:00 EDT"], "the behaviour has changed"
PYTHON
