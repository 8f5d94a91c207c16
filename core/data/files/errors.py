"""The error of files that cannot be taken."""

from __future__ import annotations


class RejectedFile(Exception):
    """The file cannot be read as rows. `code` is a stable name, the message a sentence for the caller."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class TooLargeFile(RejectedFile):
    """The file, or its decompressed content, exceeds a limit."""
