"""`python -m orchestration.wait_until_ready PORT COMMAND ARGUMENT...`: run a Dagster command behind the code server.

It imports the command while the code server starts, and runs it when the server accepts connections: Dagster itself
would retry a server that is not ready only after a long pause.
"""

from __future__ import annotations

import socket
import sys
import time
from importlib.metadata import entry_points


def wait_until_ready(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


if __name__ == "__main__":
    port, name, *arguments = sys.argv[1:]
    (command,) = entry_points(group="console_scripts", name=name)
    main = command.load()
    wait_until_ready(int(port))
    sys.argv = [name, *arguments]
    main()
