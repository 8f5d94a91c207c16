"""`python -m driver SPEC.json` runs one execution; `python -m driver --spare FOLDER` starts Spark and waits for some.

`python -m driver --forks FOLDER` runs executions without Spark in forks of itself, and `python -m driver --pod FOLDER`
those of one organization in a pod.
"""

from __future__ import annotations

import sys
from pathlib import Path

from driver.execution import execute
from driver.logs import MaskedOutput, configure_logging
from pipelines.contract.request import read_request


def main(arguments: list[str]) -> int:
    configure_logging()
    match arguments:
        case ["--spare", folder]:
            from driver.spare import serve  # imports Spark

            return serve(Path(folder))
        case ["--forks", folder]:
            from driver.fork_server import serve_forks

            return serve_forks(Path(folder))
        case ["--pod", folder]:
            from driver.pod import serve as serve_pod

            return serve_pod(Path(folder))
        case [path]:
            spec = read_request(Path(path))
            with MaskedOutput() as output:
                return execute(spec, output)
        case _:
            print("usage: python -m driver SPEC.json", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
