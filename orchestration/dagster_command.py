"""`python -m orchestration.dagster_command PORT COMMAND ARGUMENT...`: run a Dagster command behind the code server.

It waits until the server accepts connections: Dagster itself would retry one that is not ready only after a long pause.
"""

from __future__ import annotations

import socket
import sys
import time
from importlib.metadata import entry_points

from core.infra.heartbeats import Heartbeats
from core.infra.settings import Settings
from orchestration.dagster_database_internals import count_outages
from orchestration.dagster_internals import follow_crons, follow_daemons, rest_idle_daemon
from orchestration.instance import LOCATION, get_mark, open_few_connections

DAEMON = "dagster-daemon"


def main() -> None:
    _, port, name, *arguments = sys.argv
    (command,) = entry_points(group="console_scripts", name=name)
    run = command.load()
    follow_crons(LOCATION)
    settings = Settings()
    heartbeats = Heartbeats(settings.data)
    open_few_connections(settings, settings.database.dagster_connections)
    if name == DAEMON:
        rest_idle_daemon(get_mark(settings))
        count_outages()
        follow_daemons(heartbeats.beat)
    heartbeats.start_pulse("daemon" if name == DAEMON else "ui")
    _wait_until_ready(int(port))
    sys.argv = [name, *arguments]
    run()


def _wait_until_ready(port: int) -> None:
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return


if __name__ == "__main__":
    main()
