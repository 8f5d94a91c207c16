"""The OpenAPI file against the service, by requests made from it: no fault, and no answer that it does not describe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.api.conftest import Api, Server

# asks a provider; fetches pages; streams until it is left
NOT_CALLED = "cloud-credentials/test|/html/|/events$"
NOT_CHECKED = {
    "positive_data_acceptance": "a schema cannot say what SQL, a pipeline, a scope or a period is",
    "negative_data_rejection": "unknown fields are ignored, so that clients may send back whole records",
    "allow_header_conformance": "two nouns share a path, which the file shows as two",
}


@pytest.fixture(scope="module")
def caller(server: Server) -> Api:
    return server.caller("schemathesis", "admin")


def test_a_small_round(caller: Api, tmp_path: Path) -> None:
    run(caller, tmp_path, "--phases", "examples,coverage", "--max-time", "10")


@pytest.mark.long
@pytest.mark.timeout(420)
def test_a_large_round_with_links_between_the_operations(caller: Api, tmp_path: Path) -> None:
    run(caller, tmp_path, "--phases", "examples,coverage,fuzzing,stateful", "--max-examples", "15", "--max-time", "240")


def run(caller: Api, folder: Path, *options: str) -> None:
    url = f"{caller.client.base_url}/api/openapi.json"
    command = [str(Path(sys.executable).parent / "schemathesis"), "run", url, "-H", f"X-API-Key: {caller.key}"]
    checks = ["--checks", "all", "--exclude-checks", ",".join(NOT_CHECKED), "--exclude-path-regex", NOT_CALLED]
    fixed = ["--seed", "1", "--no-color", "--no-shrink", "--continue-on-failure", "--warnings", "off"]
    ended = subprocess.run(
        [*command, *checks, *fixed, *options], cwd=folder, capture_output=True, text=True, timeout=400, check=False
    )
    assert ended.returncode == 0, ended.stdout[-20_000:]
