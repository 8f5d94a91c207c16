"""What pipelines use: pages, language models, plugins and packages, trainings."""

from __future__ import annotations

import shlex
from ipaddress import ip_network
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from core.infra.settings.area import Area, CommaSeparated


class FetchSettings(Area, alias_generator="fetch_{}".format):
    """Requests of pipelines."""

    allow_networks: CommaSeparated = Field(default=(), description="CIDRs that the fetch guard lets through.")
    contact: str | None = Field(
        default=None,
        pattern=r"^[!-'*-~]{1,200}$",
        description="A web or mail address of the operator, sent in the User-Agent.",
    )

    @field_validator("allow_networks")
    @classmethod
    def _check_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            try:
                ip_network(text, strict=False)
            except ValueError:
                sentence = f"SPINDLE_FETCH_ALLOW_NETWORKS: '{text}' is not a network such as 10.0.0.0/8 or fd00::/8."
                raise ValueError(sentence) from None
        return value


class ModelSettings(Area, alias_generator="model_{}".format):
    """Language models."""

    provider: Literal["TOGETHERAI", "OPENAI", "ANTHROPIC"] | None = Field(
        default=None,
        description="Provider of the language model for pipelines and projects that name none; by default the first "
        "that has a credential.",
    )
    name: str | None = Field(default=None, description="Name of that model; by default the provider's.")
    max_calls: int | None = Field(default=None, ge=1, description="Most calls of that model in an execution.")
    max_tokens: int | None = Field(default=None, ge=1, description="Most tokens that it reads and writes.")
    max_cost: float | None = Field(default=None, gt=0, description="Most US dollars that it may cost.")
    max_calls_per_host: int | None = Field(default=None, ge=1, description="Most calls for pages of one host.")
    max_tokens_per_host: int | None = Field(default=None, ge=1, description="Most tokens for pages of one host.")
    max_cost_per_host: float | None = Field(default=None, gt=0, description="Most US dollars for one host.")
    daily_calls: int | None = Field(
        default=None, ge=0, description="Most calls of language models that an organization may make in a day (UTC)."
    )
    daily_tokens: int | None = Field(default=None, ge=0, description="Most tokens that they read and write.")
    daily_cost: float | None = Field(default=None, ge=0, description="Most US dollars that they may cost.")


class PluginSettings(Area):
    """Plugins and packages."""

    stages: CommaSeparated | None = Field(
        alias="plugin_stages",
        default=None,
        description="Slugs of the organizations whose uploaded plugins may have stages, actions and methods, the parts "
        "that run in drivers; `*` for all. Unset: where there is only one organization.",
    )
    scripts: CommaSeparated = Field(
        default=(),
        description="Slugs of the organizations whose pipelines may run scripts in pages by the action evaluate; `*` "
        "for all. Unset: none.",
    )
    packages: CommaSeparated | None = Field(
        default=None,
        description="Names of the packages that pipelines may name, `*` for all; others that they require come along. "
        "Unset: all where there is only one organization, else none.",
    )
    package_index: SecretStr | None = Field(
        default=None,
        description="Index of the Python packages that pipelines name: its address, or a folder of wheels; the public "
        "index when unset.",
    )


class TrainerSettings(Area, alias_generator="trainer_{}".format):
    """Local trainings."""

    command: str | None = Field(
        alias="trainer",
        default=None,
        description="Command of local trainings, without a shell; {model}, {train}, {validation} and {output} are "
        "filled in (docs/training.md).",
    )
    models: CommaSeparated = Field(default=(), description="Names that {model} may have.")
    minutes: float = Field(default=720, gt=0, description="Longest time of a local training.")
    gigabytes: float = Field(default=8, gt=0, description="Largest memory of a local training.")

    @field_validator("command")
    @classmethod
    def _check_command(cls, value: str | None) -> str | None:
        if value and not all(name in value for name in ("{model}", "{train}", "{output}")):
            raise ValueError("SPINDLE_TRAINER: the command needs {model}, {train} and {output}.")
        try:
            shlex.split(value or "")
        except ValueError as error:
            raise ValueError(f"SPINDLE_TRAINER: the command cannot be split into arguments: {error}.") from None
        return value or None
