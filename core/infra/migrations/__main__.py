"""`python -m core.infra.migrations`: brings the database up to date."""

from __future__ import annotations

import sys

from core.errors import SpindleError
from core.infra.migrations import migrate
from core.infra.settings import Settings

if __name__ == "__main__":
    try:
        migrate(Settings())
    except SpindleError as error:
        sys.exit(str(error))
