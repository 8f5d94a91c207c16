from __future__ import annotations

import sys

from core.settings import Settings
from orchestration.instance import prepare

prepare(Settings().data, int(sys.argv[1]))
