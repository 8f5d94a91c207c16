"""A trainer for tests: it counts its examples, and does what the name of its model says."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

MODELS = ("small", "failing", "endless", "hungry", "empty")
COMMAND = f"{sys.executable} -S {Path(__file__).resolve()} {{model}} {{train}} {{validation}} {{output}}"


def main() -> None:
    model, train, validation, output = sys.argv[1:]
    examples = len(Path(train).read_text().splitlines())
    held_out = len(Path(validation).read_text().splitlines())
    print(f"{examples} examples, {held_out} for validation", flush=True)
    for step in range(1, 4):
        print(json.dumps({"step": step, "steps": 3, "loss": 1 / step}), flush=True)
    if model == "failing":
        print("ValueError: the labels are missing", file=sys.stderr)
        sys.exit(3)
    if model == "hungry":
        held = [b"x" * (50 * 2**20) for _ in range(8)]
        print(len(held))
    while model in ("endless", "hungry"):
        time.sleep(0.1)
    if model != "empty":
        (Path(output) / "weights").mkdir()
        (Path(output) / "weights" / "model.json").write_text(json.dumps({"examples": examples}))
        (Path(output) / "labels.txt").write_text("good\nbad\n")


if __name__ == "__main__":
    main()
