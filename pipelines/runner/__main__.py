from __future__ import annotations

import sys

from pipelines.runner.driver import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
