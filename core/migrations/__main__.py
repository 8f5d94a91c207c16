from __future__ import annotations

from core.migrations import migrate
from core.settings import Settings

if __name__ == "__main__":
    migrate(Settings())
