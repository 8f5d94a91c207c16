"""Running of agents' Python code for its pipeline, isolated, with line numbers of the code in errors."""

from __future__ import annotations

import pytest

from pipelines.errors import PipelineError
from pipelines.transforms.script_run import run_script

CODE = """\
import sys
from spindle import Pipeline, stage
from spindle.spark import start_session

shops = sys.argv[1:] or ["books"]
pipeline = Pipeline.of(
    stages=[stage("wget", f"http://{shops[0]}/"), *(stage("echo", f"shop {each}") for each in shops)],
    spindle={"robots": "ignore"},
)

if __name__ == "__main__":
    pipeline.run(start_session()).show()
"""


def test_code_with_arguments_gives_a_pipeline() -> None:
    assert run_script(CODE) == (
        "pipeline:\n- stage: wget\n  args:\n  - http://books/\n- stage: echo\n  args:\n  - shop books\n"
        "spindle:\n  robots: ignore\n"
    )
    assert run_script(CODE, ["toys", "games"]).count("echo") == 2


@pytest.mark.parametrize(
    ("code", "line", "reason"),
    [
        ("print(1)", None, "it assigns no Pipeline.of(...) to the name pipeline"),
        ("\npipeline = Pipeline.of(", 2, "SyntaxError: '(' was never closed"),
        ("a = {}\n\nb = a['x']", 3, "KeyError: 'x'"),
        ("pipeline = Pipeline.of(stage=[])", 1, "Pipeline.of takes fetch, stages"),
        ("rows = spark.read.csv('a')", 1, "spark.read is not there"),
        ("pipeline = Pipeline.of(stages=[stage('wget', object())])", None, "not JSON serializable"),
        ("import sys\nsys.exit(0)", 2, "SystemExit: 0"),
        ("import os\nos.kill(os.getpid(), 9)", None, "it was stopped"),
        ("x = bytearray(2 ** 31)", 1, "MemoryError"),
        ("open('/etc/passwd').read()", 1, "No such file"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 22), 1)", 2, "Network is unreachable"),
    ],
)
def test_code_without_a_pipeline_is_refused_with_its_line(code: str, line: int | None, reason: str) -> None:
    with pytest.raises(PipelineError) as refused:
        run_script(code)
    (problem,) = refused.value.problems
    assert (problem.code, problem.line) == ("python-agent", line)
    assert reason in problem.message


def test_code_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.transforms.script_run._SECONDS", 0.5)
    with pytest.raises(PipelineError, match="it was stopped"):
        run_script("while True: pass")
