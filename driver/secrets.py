"""Credential variables: only the driver has their values, and it masks them in everything that it logs or reports."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

from pipelines.contract.request import RunRequest
from pipelines.fetch.urls import MASK, MIN_SECRET_LENGTH, list_spellings, mask_secrets
from pipelines.filesystem import STORAGE_ACCESS, is_bucket_variable, list_bucket_access, load_storage_access
from pipelines.language.names import ELLIPSIS
from pipelines.language.parameters import Value
from pipelines.login import LOGIN_VARIABLE, Login

_MIN_PREFIX = 4  # a shorter beginning of a secret, at the end of a truncated text, is not masked


class Secrets:
    """The values of the credential variables that a spec names, taken from the environment."""

    def __init__(self, spec: RunRequest) -> None:
        self._values = {name: os.environ[name] for name in spec.credentials if name in os.environ}
        self._public = frozenset(spec.public_variables)
        self._storage = load_storage_access()
        self._spellings = list_spellings(self.values)

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables for the Python workers: also the access to the storage, which no parameter can reveal."""
        storage = {STORAGE_ACCESS: self._storage.to_json()} if self._storage else {}
        return {**self._values, **storage}

    @property
    def values(self) -> tuple[str, ...]:
        """The values to mask: those that are long enough to be secrets, without regions and addresses.

        An address with a password in it is a secret.
        """
        shown = {name for name, value in self._values.items() if name in self._public and "@" not in value}
        whole = (name for name in self._values if not (is_bucket_variable(name) or name == LOGIN_VARIABLE))
        hidden = (self._values[name] for name in whole if name not in shown)
        login = Login.from_json(text).secrets if (text := self._values.get(LOGIN_VARIABLE)) else ()
        buckets = (secret for access in list_bucket_access(self._values) for secret in access.secrets)
        storage = self._storage.secrets if self._storage else ()
        return tuple(value for value in (*hidden, *login, *buckets, *storage) if len(value) >= MIN_SECRET_LENGTH)

    def reveal(self, parameters: Mapping[str, Value]) -> dict[str, Value]:
        """Replace the parameters that refer to a credential variable (NAME: `${NAME}`) by its value."""
        usable = (name for name in self._values if name != LOGIN_VARIABLE)
        secret = {name: self._values[name] for name in usable if parameters.get(name) == f"${{{name}}}"}
        return {**parameters, **secret}

    def mask(self, value: Any) -> Any:
        """Replace the secrets in JSON by asterisks, also beginnings of secrets where a text was truncated."""
        if isinstance(value, str):
            *truncated, rest = mask_secrets(value, self._spellings).split(ELLIPSIS)
            return ELLIPSIS.join([*map(self._mask_end, truncated), rest])
        if isinstance(value, dict):
            return {key: self.mask(each) for key, each in cast(dict[str, Any], value).items()}
        return [self.mask(each) for each in cast(list[Any], value)] if isinstance(value, list) else value

    def _mask_end(self, text: str) -> str:
        """Mask the longest beginning of a secret that the text ends with."""
        sizes = (
            size
            for spelling in self._spellings
            for size in range(_MIN_PREFIX, min(len(spelling), len(text) + 1))
            if text.endswith(spelling[:size])
        )
        size = max(sizes, default=0)
        return text[:-size] + MASK if size else text
