"""`spindle backfill` and `spindle partitions`, of a job that a file declares."""

from __future__ import annotations

from pathlib import Path

from tests.support.api import Api
from tests.support.commands import Spindle

FILE = """\
agents:
  - name: Days
    pipeline: |
      fetch: {url: "http://127.0.0.1/?day=${DAY}&of=${COUNTRY}"}
      pipeline:
        - {stage: extract, args: [{selector: h1, method: text, as: title}]}
projects:
  - name: Shop
    jobs:
      - name: days
        agent: Days
        partitions:
          - {by: day, start: 2026-01-01, end: 2026-01-31, timezone: Europe/Rome, parameter: DAY}
          - {values: [it, fr], parameter: COUNTRY}
"""


def test_partitions_of_a_file_are_listed_and_backfilled(api: Api, spindle: Spindle, tmp_path: Path) -> None:
    file = tmp_path / "spindle.yaml"
    file.write_text(FILE)
    assert spindle("apply", "-f", file).exit_code == 0
    again = spindle("apply", "-f", file, "--dry-run")
    assert again.exit_code == 0, again.output
    listed = spindle("partitions", "Shop/days", "--state", "missing").output.splitlines()
    assert len(listed) == 1 + 2 * 31
    assert listed[1].split() == ["it|2026-01-01", "MISSING"]
    accepted = spindle("backfill", "Shop/days", "--from", "2026-01-30", "--to", "2026-01")
    assert "of 4 partitions" in accepted.output
    identity = accepted.output.split()[1]
    assert "4 skipped" in spindle("backfill", "Shop/days", "--cancel", identity).output
    refused = spindle("backfill", "Shop/days", "--partition", "de|2026-01-01")
    assert (refused.exit_code, "COUNTRY is one of it, fr" in refused.output) == (1, True)
    execution = spindle("execute", "Shop/days", "-p", "DAY=2026-01-02", "-p", "COUNTRY=fr")
    assert execution.exit_code == 0
    assert "fr|2026-01-02  RUNNING" in spindle("partitions", "Shop/days").output
    assert "timezone: Europe/Rome" in spindle("export").output
    file.write_text("projects: [{name: Shop, jobs: [{name: days, partitions: []}]}]")
    assert spindle("apply", "-f", file).exit_code == 0
    whole = spindle("partitions", "Shop/days")
    assert (whole.exit_code, "has no partitions" in whole.output) == (1, True)
