"""A driver that crawls once for each input line: `python -m bench.crawlers.driver CRAWL URL CORES CACHE`.

Prints a JSON line when it is ready, and the result of each pass. CACHE as in `bench.crawlers.engine`.
"""

from __future__ import annotations

import json
import sys

from bench.crawlers.engine import run_passes
from bench.crawlers.fields import CRAWLS


def main() -> None:
    crawl, site, cores, cache = sys.argv[1:]
    with run_passes(CRAWLS[crawl], site, int(cores), cache) as passes:
        print(json.dumps("ready"), flush=True)
        for _ in sys.stdin:
            print(json.dumps(next(passes)), flush=True)


if __name__ == "__main__":
    main()
