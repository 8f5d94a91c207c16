"""Examples for training: rows in the shape that a provider takes, checked one by one, and split."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from core.errors import BadInput
from core.training.providers.protocol import ExampleFormat

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
PAIRS = (
    ("prompt", "completion"),
    ("instruction", "output"),
    ("instruction", "response"),
    ("question", "answer"),
    ("input", "output"),
)
TRAIN, VALIDATION = "train.jsonl", "validation.jsonl"
SHARE = 10  # one of so many examples is for validation
MIN_SPLIT = 10
MAX_EXAMPLE_BYTES = 4 * 2**20

Example = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ExampleFiles:
    """Files of examples. There is no file for validation where nothing was split off."""

    train: Path
    validation: Path | None
    examples: int
    characters: int


def check_columns(columns: Iterable[str], format_: ExampleFormat, path: str) -> None:
    """Raise BadInput for columns of which no row can be an example."""
    names = {name.casefold() for name in columns}
    known = format_ == "rows" or "messages" in names or any(names.issuperset(pair) for pair in PAIRS)
    if not known and not (format_ == "text" and "text" in names):
        sentence = f"The training data has the columns {', '.join(sorted(names)) or 'none'}. {_describe_shape(format_)}"
        raise BadInput(sentence, code="invalid-example", path=path)


def write_examples(
    lines: Iterable[bytes], format_: ExampleFormat, folder: Path, path: str, *, split: bool
) -> ExampleFiles:
    """Write the rows of JSON lines as examples; raise BadInput with the number of the first line that is no example.

    With `split`, about a tenth of ten or more examples is for validation: which ones depends only on their content.
    """
    train, validation = folder / TRAIN, folder / VALIDATION
    convert = CONVERTERS[format_]
    count = characters = 0
    with train.open("w") as kept, validation.open("w") as split_off:
        for number, row in _read_rows(lines, path):
            text = json.dumps(convert(row, number, path), ensure_ascii=False)
            count, characters = count + 1, characters + len(text)
            target = split_off if split and _is_for_validation(text) else kept
            target.write(f"{text}\n")
    if not count:
        raise BadInput("The training data has no rows.", code="invalid-example", path=path)
    if not split:
        validation.unlink()
        return ExampleFiles(train, None, count, characters)
    if count < MIN_SPLIT or not train.stat().st_size:
        _move_lines(validation, train)
    return ExampleFiles(train, validation, count, characters)


def _read_rows(lines: Iterable[bytes], path: str) -> Iterator[tuple[int, Example]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line) if len(line) <= MAX_EXAMPLE_BYTES else None
        except (ValueError, RecursionError):
            row = None
        if not isinstance(row, dict):
            sentence = f"Line {number} of the training data is no JSON object of at most {MAX_EXAMPLE_BYTES} bytes."
            raise BadInput(sentence, code="invalid-example", path=path)
        yield number, {name: value for name, value in cast(Example, row).items() if value is not None}


def _keep(row: Example, number: int, path: str) -> Example:
    return row


def _make_messages(row: Example, number: int, path: str) -> Example:
    """Return a conversation: the row's `messages`, or a question and its answer."""
    if "messages" in row:
        return _check_messages(row, number, path)
    pair = _find_pair(row)
    if pair is None:
        raise _make_error(number, f"has neither. {_describe_shape('messages')}", path)
    question, answer = pair
    messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    if isinstance(system := row.get("system"), str) and system:
        messages.insert(0, {"role": "system", "content": system})
    return {"messages": messages}


def _make_text(row: Example, number: int, path: str) -> Example:
    """Return a conversation, a question with its answer, or a text."""
    if "messages" not in row and _find_pair(row) is None:
        if isinstance(text := row.get("text"), str) and text:
            return {"text": text}
        raise _make_error(number, f"has none of them. {_describe_shape('text')}", path)
    return _make_messages(row, number, path)


def _find_pair(row: Mapping[str, Any]) -> tuple[str, str] | None:
    for names in PAIRS:
        first, second = (row.get(name) for name in names)
        if isinstance(first, str) and isinstance(second, str) and first and second:
            return first, second
    return None


def _check_messages(row: Example, number: int, path: str) -> Example:
    messages: Any = row["messages"]
    if isinstance(messages, str):  # a column of a CSV file
        try:
            messages = json.loads(messages)
        except (ValueError, RecursionError):
            messages = None
    if not isinstance(messages, list) or not messages:
        raise _make_error(number, "has 'messages' that are no list.", path)
    kept: list[Example] = []
    for message in cast(list[Any], messages):
        known = cast(Example, message) if isinstance(message, dict) else {}
        if known.get("role") not in ROLES:
            raise _make_error(number, f"has a message without one of the roles {', '.join(sorted(ROLES))}.", path)
        kept.append({name: value for name, value in known.items() if value is not None})
    if not any(message["role"] == "assistant" for message in kept):
        raise _make_error(number, "has no message of the assistant, from which the model would learn.", path)
    return {**row, "messages": kept}


CONVERTERS: Mapping[ExampleFormat, Callable[[Example, int, str], Example]] = {
    "rows": _keep,
    "messages": _make_messages,
    "text": _make_text,
}


def _describe_shape(format_: ExampleFormat) -> str:
    pairs = ", ".join(" and ".join(f"'{name}'" for name in pair) for pair in PAIRS)
    text = ", or 'text'" if format_ == "text" else ""
    return f"An example has 'messages', or {pairs}{text}."


def _make_error(number: int, problem: str, path: str) -> BadInput:
    return BadInput(f"Line {number} of the training data {problem}", code="invalid-example", path=path)


def _is_for_validation(text: str) -> bool:
    return hashlib.sha256(text.encode()).digest()[0] % SHARE == 0


def _move_lines(source: Path, target: Path) -> None:
    with target.open("a") as file:
        file.write(source.read_text())
    source.write_text("")
