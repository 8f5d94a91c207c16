"""`python -m driver.probe MASTER MEMORY`: start a Spark session, run one job, and print the session's facts as JSON."""

from __future__ import annotations

import json
import sys

from pipelines.spark.session import start_session


def main(master: str, memory: str) -> None:
    spark = start_session(master, "spindle-probe", {"spark.driver.memory": memory, "spark.ui.enabled": "false"})
    rows = spark.range(2).count()
    print(json.dumps({"version": spark.version, "cores": spark.sparkContext.defaultParallelism, "rows": rows}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
