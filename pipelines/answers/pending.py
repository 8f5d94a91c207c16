"""The exception of a row whose answer has not arrived yet."""

from __future__ import annotations


class AnswerPending(Exception):
    """The answer to a question is on its way: the row is read again once it has arrived."""
