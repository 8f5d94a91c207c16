"""A replacement for PySpark's daemon, which forks Spark's Python workers: `python -m pipelines.spark.daemon`.

Spark adds archives (pyspark.zip, a jar) to Python's path, and PySpark invalidates the import caches before every task;
reading the archives again takes a quarter of a second per task. An installed PySpark does not need them. Modules that
passes use are imported once, before workers are forked.
"""

from __future__ import annotations

import gc
import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from zipimport import zipimporter

_ARCHIVE = re.compile(r"(pyspark|py4j|spark-core).*\.(zip|jar)")


def remove_archives() -> None:
    """Remove Spark's archives from the path, unless PySpark is imported from one."""
    folders = [each for each in sys.path if not _ARCHIVE.fullmatch(Path(each).name)]
    if not all(PathFinder.find_spec(name, folders) for name in ("pyspark", "py4j")):
        return
    left = {*sys.path} - {*folders}
    sys.path[:] = folders
    sys.modules.pop("org", None)  # a namespace package of the jar, which the standard library takes for Jython
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter) and finder.archive in left:
            del sys.path_importer_cache[path]


if __name__ == "__main__":
    remove_archives()

    from pyspark.daemon import manager

    import pipelines.spark.tasks  # noqa: F401  # pyright: ignore[reportUnusedImport]

    gc.collect()
    gc.freeze()  # garbage collection after each task would visit, and so copy, all imported objects
    manager()
