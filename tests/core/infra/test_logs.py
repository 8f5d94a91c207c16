from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from core.infra import logs


def test_a_process_logs_one_json_object_a_line() -> None:
    script = (
        "import structlog; from core.infra import logs; logs.configure('launcher');"
        "structlog.get_logger().info('launched', run_id='r1')\n"
        "try: 1/0\nexcept ZeroDivisionError: structlog.get_logger().exception('broke')"
    )
    folder = Path(logs.__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=folder, capture_output=True, text=True, check=True)
    first, second = (json.loads(line) for line in done.stderr.splitlines())
    assert {key: first[key] for key in ("event", "level", "service", "run_id")} == {
        "event": "launched",
        "level": "info",
        "service": "launcher",
        "run_id": "r1",
    }
    assert first["timestamp"].endswith("Z")
    assert "ZeroDivisionError" in second["exception"]
