"""`python -m orchestration.behind PORT MODULE ARGUMENT...`: a command of Dagster's that needs the code server there.

It imports while the code server starts, and goes on when that one answers: Dagster would not look for it again soon.
"""

from __future__ import annotations

import importlib
import socket
import sys
import time


def wait_for(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


if __name__ == "__main__":
    port, name, *arguments = sys.argv[1:]
    module = importlib.import_module(name)
    wait_for(int(port))
    sys.argv = [name, *arguments]
    module.main()
