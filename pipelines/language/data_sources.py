"""Spark data sources that the operator allows by SPINDLE_SPARK_SOURCES, with the jars of each.

    kafka=org.apache.spark:spark-sql-kafka-0-10_2.13:4.1.1; mongodb=/srv/jars/mongo-spark.jar,/srv/jars/mongo-driver.jar

A jar is a path or Maven coordinates, whose dependencies come with it. A name alone is a source that Spark's own folder
of jars has. The service, the command line and drivers read the same variable.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from pipelines.language.formats import FORMATS

VARIABLE = "SPINDLE_SPARK_SOURCES"
# names of formats with stages of their own, and of libraries that Spindle fetches
_TAKEN = frozenset({*FORMATS, "xml", "orc", "text", "jdbc", "s3", "postgresql", "mysql"})
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_COORDINATES = re.compile(r"[\w.-]+:[\w.-]+:[\w.-]+")


def parse_data_sources(text: str) -> Mapping[str, tuple[str, ...]]:
    """Return the jars of each data source; raise ValueError with a sentence."""
    found: dict[str, tuple[str, ...]] = {}
    for part in filter(None, (each.strip() for each in text.split(";"))):
        name, _, listed = (each.strip() for each in part.partition("="))
        if not _NAME.fullmatch(name):
            raise ValueError(f"{VARIABLE}: '{part[:200]}' is not of the form NAME=JAR,JAR; NAME=JAR")
        if name.casefold() in _TAKEN:
            raise ValueError(f"{VARIABLE}: '{name}' needs no setting, its jars are known")
        jars = tuple(filter(None, (each.strip() for each in listed.split(","))))
        for jar in jars:
            if not _COORDINATES.fullmatch(jar) and not (jar.startswith("/") and jar.endswith(".jar")):
                raise ValueError(
                    f"{VARIABLE}: '{jar[:200]}' is neither group:artifact:version nor an absolute path of a jar"
                )
        found[name] = jars
    return found


def load_data_sources() -> Mapping[str, tuple[str, ...]]:
    """Return the data sources that the environment allows, with their jars; raise ValueError."""
    return parse_data_sources(os.environ.get(VARIABLE, ""))


def find_data_source(format_: str) -> str | None:
    """Return the name of an allowed data source in the setting's spelling; None for another format."""
    return next((name for name in load_data_sources() if name.casefold() == format_.casefold()), None)


def is_coordinates(jar: str) -> bool:
    """Return whether a jar is named by Maven coordinates."""
    return _COORDINATES.fullmatch(jar) is not None


def describe_missing_source(format_: str) -> str:
    """Return the sentence for a data source that no setting allows."""
    return (
        f"no setting allows the data source '{format_}': set {VARIABLE} for the service, such as "
        f"{VARIABLE}='{format_}=group:artifact:version' (docs/sources/README.md)"
    )
