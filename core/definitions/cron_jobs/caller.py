"""`python -m core.definitions.cron_jobs.caller`: make the call of one tick, in a pod of the cluster's CronJob.

The address was checked when the cron job was created, and is checked again here: names may lead elsewhere by now.
"""

from __future__ import annotations

import os
import sys

from core.definitions.cron_jobs.secret import HEADER
from core.infra.http_client import send_request
from core.infra.settings import Settings

URL, BODY, KEY, TICK = (f"SPINDLE_CALL_{name}" for name in ("URL", "BODY", "KEY", "TICK"))


def call() -> str | None:
    """Post the body to the address; return why it was not accepted, None when it was."""
    headers = {"content-type": "application/json", "idempotency-key": os.environ[TICK], "webhook-id": os.environ[TICK]}
    if key := os.environ.get(KEY):
        headers[HEADER] = key
    response = send_request(Settings(), "POST", os.environ[URL], headers, os.environ[BODY].encode())
    if response.ok:
        return None
    return response.error or f"The answer was {response.status}."


if __name__ == "__main__":
    sys.exit(call())
