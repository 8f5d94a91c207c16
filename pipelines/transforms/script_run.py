"""Running of an agent's Python code, whose pipeline is computed: in the sandbox of row transforms, with `Pipeline.of`.

A script whose values are written out is read without being run (`script_reader.py`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from pipelines.errors import PipelineError, Problem, RunError
from pipelines.language.nodes import MAX_BYTES, write_yaml
from pipelines.transforms.sandbox import FunctionCall, Limits, RowFailed, Sandbox

_SECONDS, _MEMORY_MIB = 10.0, 512
_TEXT = Path(__file__).with_name("jailed_script.py").read_text()
CODE = "python-agent"


def run_script(code: str, arguments: Sequence[str] = (), packages: str | None = None) -> str:
    """Return the pipeline, as YAML, that a Python code describes; `sys.argv[1:]` are the arguments there.

    `packages` is a folder that it imports from.

    Raises PipelineError with the line where the code fails, also when it is too slow or assigns no pipeline.
    """
    limits = Limits(_SECONDS, _MEMORY_MIB, True)
    call = FunctionCall("the agent's code", _TEXT, "describe_pipeline", {}, limits, packages=packages)
    sandbox = Sandbox(call)
    try:
        (found,) = sandbox.run([{"code": code, "arguments": list(arguments)}])
    except RunError as error:
        raise _refuse(str(error)) from error
    finally:
        sandbox.close()
    if not isinstance(found, dict):
        raise _refuse(f"it was stopped: {found}" if isinstance(found, RowFailed) else "it gave no answer")
    if "pipeline" not in found:
        raise _refuse(str(found.get("error")), found.get("line"))
    blocks = json.loads(str(found["pipeline"]))
    first = {key: blocks.pop(key) for key in ("fetch",) if key in blocks}
    text = write_yaml({**first, "pipeline": blocks.pop("stages", []), **blocks})
    if len(text.encode()) > MAX_BYTES:
        raise _refuse(f"its pipeline has more than {MAX_BYTES} bytes")
    return text


def _refuse(reason: str, line: int | None = None) -> PipelineError:
    return PipelineError([Problem("code", f"the Python code gives no pipeline: {reason}", line, None, CODE)])
