"""`spindle jars`: fetch Java libraries before a pipeline needs them, or for a machine without a Maven repository."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pipelines.spark.jars import LibrariesMissing, get_cache_folder, list_libraries, require_jars


def fetch(libraries: Sequence[str]) -> int:
    """Fetch the jars of these libraries, of all without one, and print their folder; return 1 when that fails."""
    known = sorted(list_libraries())
    if unknown := [name for name in libraries if name not in known]:
        print(f"There is no library '{unknown[0]}'; there are {', '.join(known)}.", file=sys.stderr)
        return 1
    try:
        require_jars(libraries or known)
    except LibrariesMissing as error:
        print(error, file=sys.stderr)
        return 1
    print(get_cache_folder())
    return 0
