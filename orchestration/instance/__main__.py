from __future__ import annotations

import sys

from core.errors import SpindleError
from core.infra.settings import Settings
from orchestration.instance import prepare_instance


def main() -> None:
    try:
        prepare_instance(Settings(), int(sys.argv[1]))
    except SpindleError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
