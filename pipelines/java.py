"""Java, which starts Spark."""

from __future__ import annotations

import os
import shutil

JAVA_WANTED = "Set JAVA_HOME to the folder of Java 17 or 21, or start with bin/spindle, which finds it."


def find_missing_java() -> str | None:
    """Return the advice for a machine where there is no `java` to start Spark with."""
    home = os.environ.get("JAVA_HOME")
    if shutil.which(f"{home}/bin/java" if home else "java"):
        return None
    return f"there is no Java: {describe_java()}. {JAVA_WANTED}"


def describe_java() -> str:
    home = os.environ.get("JAVA_HOME")
    return f"JAVA_HOME is {home}" if home else "JAVA_HOME is not set, and java is searched on the PATH"
