"""`python -m core.training`: run trainings until a signal comes."""

from __future__ import annotations

from core.infra import logs
from core.infra.background import create_shutdown_event
from core.infra.heartbeats import Heartbeats
from core.infra.installation import exit_if_foreign
from core.infra.pidfile import hold_pidfile
from core.infra.settings import Settings
from core.training.assembly import open_training_service
from core.training.service import PIDFILE
from core.training.trainer import Trainer


def main() -> None:
    logs.configure("trainer")
    settings = Settings()
    exit_if_foreign(settings)
    shutdown = create_shutdown_event()
    service = open_training_service(settings)
    Heartbeats(settings.data).start_pulse("trainer")
    with hold_pidfile(settings.data / PIDFILE):
        Trainer(service).run(shutdown)
    service.database.close()


if __name__ == "__main__":
    main()
