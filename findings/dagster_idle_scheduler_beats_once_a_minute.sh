#!/usr/bin/env bash
# An idle scheduler of Dagster beats once a minute, while its daemon writes a heartbeat of all others every half minute.
#
# One would guess that each daemon of `dagster-daemon run` beats as often as the others, so that a probe which takes one
# for dead after 45 seconds sees them all alive. The scheduler waits for the next full minute without a yield, and beats
# are written where it yields: without schedules, and with schedules that fire rarely, its newest beat is older than 45
# seconds for a quarter of the time, although nothing is wrong.
set -eu
folder=$(mktemp -d)
daemon=
trap '[ -z "$daemon" ] || kill "$daemon"; wait; rm -r "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q dagster==1.13.27
"$folder/venv/bin/python" -c 'import dagster; print("dagster", dagster.__version__)'
mkdir "$folder/home"
echo 'telemetry: {enabled: false}' >"$folder/home/dagster.yaml"
echo 'from dagster import Definitions; defs = Definitions()' >"$folder/code.py"
export DAGSTER_HOME=$folder/home
"$folder/venv/bin/dagster-daemon" run -f "$folder/code.py" >"$folder/log" 2>&1 &
daemon=$!
"$folder/venv/bin/python" - <<'PYTHON'
import time
from collections import defaultdict

from dagster import DagsterInstance

seen = defaultdict(list)
end = time.monotonic() + 220
with DagsterInstance.get() as instance:
    while time.monotonic() < end:
        for name, status in instance.get_daemon_statuses().items():
            beat = status.last_heartbeat
            if beat and beat.timestamp not in seen[name]:
                seen[name].append(beat.timestamp)
        time.sleep(1)
gaps = {name: [round(b - a) for a, b in zip(beats[1:], beats[2:])] for name, beats in seen.items() if len(beats) > 3}
for name, found in sorted(gaps.items()):
    print(f"{name:10} seconds between beats: {found}")
assert all(45 < gap <= 90 for gap in gaps["SCHEDULER"]), "the behaviour has changed"
assert all(gap < 45 for gap in gaps["SENSOR"]), "the behaviour has changed"
PYTHON
