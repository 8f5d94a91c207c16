"""`spindle execute --follow` beside a whole Spindle: its progress, its log, its end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.service import CLONE, Service
from tests.support.site import GatedSite


@pytest.mark.long
def test_an_execution_is_followed_to_its_end(service: Service, site: GatedSite) -> None:
    site.open()
    job = service.make_job(
        f'fetch: {{url: "{site.url}"}}\npipeline:\n  - {{stage: extract, args: [{{selector: h1}}]}}\n'
    )
    name = service.get(f"/projects/id/{job.project_id}")["name"]
    command = [sys.executable, "-P", "-m", "cli.main", "execute", f"{name}/rows", "--follow"]
    followed = subprocess.run(
        command,
        cwd=CLONE,
        env=os.environ | {"SPINDLE_DATA": str(service.data), "SPINDLE_PORT": str(service.port)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert followed.returncode == 0, followed.stdout + followed.stderr
    said = followed.stdout.splitlines()
    assert "was accepted" in said[0]
    assert "Completed after" in followed.stdout
    assert any("INFO" in line or "info" in line for line in said), followed.stdout
    assert service.key not in followed.stdout + followed.stderr
