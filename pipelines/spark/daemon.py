"""Forks Spark's Python workers, in place of PySpark's own daemon: `python -m pipelines.spark.daemon`.

Spark puts archives on Python's path (pyspark.zip, a jar), and PySpark has Python forget what the path holds before each
task, so that their directories are read anew: a quarter of a second of each task. They are not needed where PySpark is
installed. What passes need is imported before workers are forked, once for all.
"""

from __future__ import annotations

import gc
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from zipimport import zipimporter

_ARCHIVE = re.compile(r"(pyspark|py4j|spark-core).*\.(zip|jar)")


def leave_archives() -> None:
    """Takes Spark's archives off the path, unless PySpark lies in one."""
    folders = [each for each in sys.path if not _ARCHIVE.fullmatch(Path(each).name)]
    if not all(PathFinder.find_spec(name, folders) for name in ("pyspark", "py4j")):
        return
    left = {*sys.path} - {*folders}
    sys.path[:] = folders
    sys.modules.pop("org", None)  # the standard library looks for Jython's, and finds the jar's folder
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and finder.archive in left:
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    leave_archives()

    from pyspark.daemon import manager

    import pipelines.spark.worker  # noqa: F401  # pyright: ignore[reportUnusedImport]

    gc.collect()
    gc.freeze()  # after each task workers look for cycles: among all that was imported it takes long and copies memory
    manager()
