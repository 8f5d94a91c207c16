"""Print the OpenAPI file: `python -m api.openapi`."""

from __future__ import annotations

import json

from api.app import create_app
from core.infra.settings import Settings


def main() -> None:
    print(json.dumps(create_app(Settings()).openapi(), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
