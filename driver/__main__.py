from __future__ import annotations

import sys

from driver.execution import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
