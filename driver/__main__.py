"""`python -m driver SPEC.json` runs one execution, and `python -m driver --host FOLDER` is a host of several."""

from __future__ import annotations

import sys
from pathlib import Path

from driver.execution import execute
from driver.host_folder import HOST_FILE, read_host
from driver.logs import MaskedOutput, configure_logging
from pipelines.contract.request import read_request


def main(arguments: list[str]) -> int:
    configure_logging()
    match arguments:
        case ["--host", path]:
            folder, host = Path(path), read_host(Path(path) / HOST_FILE)
            if host.spark is None and host.tls is None:
                from driver.fork_host import serve_forks

                return serve_forks(folder)
            from driver.host import serve

            return serve(folder, host)
        case [path]:
            spec = read_request(Path(path))
            with MaskedOutput() as output:
                return execute(spec, output)
        case _:
            print("usage: python -m driver SPEC.json", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
