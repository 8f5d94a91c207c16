"""The fields of a cloud credential that a request sets."""

from __future__ import annotations

from typing import Any

from pydantic import Field
from pydantic.alias_generators import to_camel

from core.definitions.credentials.providers import parse_provider
from core.errors import BadInput
from core.infra.changes import Changes, example
from pipelines.login import MAX_LOGIN_LENGTH

SECRETS = ("api_key", "api_secret", "access_key_id", "secret_access_key")
PLAIN = ("region", "endpoint", "engine_id")
LOGIN_FIELD = "api_secret"  # of the provider LOGIN: the storage state of a browser
MAX_VALUE_LENGTH = 16 * 2**10


class CredentialUpdate(Changes):
    """A secret that is sent back masked stays as it is, as long as `endpoint` does."""

    model_config = example({"name": "Search", "provider": "BING_SEARCH", "apiKey": "the key"})

    name: str | None = None
    description: str | None = None
    provider: str | None = None
    """Such as OPENAI or AWS, in any spelling."""
    enabled: bool | None = None
    """Whether executions get it; true when left out at the creation."""
    api_key: str | None = None
    """Secret; reads return asterisks."""
    api_secret: str | None = None
    """Secret; reads return asterisks."""
    access_key_id: str | None = None
    """Secret; reads return asterisks."""
    secret_access_key: str | None = None
    """Secret; reads return asterisks."""
    region: str | None = None
    endpoint: str | None = Field(
        default=None,
        description="Where the provider is reached, when not at its usual address. A change of it takes all of the "
        "credential's secrets anew; a masked one is refused.",
    )
    engine_id: str | None = None

    def to_columns(self) -> dict[str, Any]:
        """Return the values to set, the secrets among them in clear."""
        columns = super().to_columns()
        for field in (*SECRETS, *PLAIN):
            limit = MAX_LOGIN_LENGTH if field == LOGIN_FIELD else MAX_VALUE_LENGTH
            if len(columns.get(field, "")) > limit:
                path = to_camel(field)
                raise BadInput(f"'{path}' is longer than {limit} characters.", path=path)
        return columns if self.provider is None else {**columns, "provider": parse_provider(self.provider)}

    def get_provider_fields(self) -> dict[str, str]:
        """Return the fields that a provider is asked with, secrets in clear."""
        return {field: value for field in (*SECRETS, *PLAIN) if (value := getattr(self, field)) is not None}


class CredentialCreate(CredentialUpdate):
    """`name` left out is the provider's. `global` serves all organizations, and takes a super_admin."""

    not_columns = frozenset({"everywhere"})

    provider: str = Field(  # pyright: ignore[reportIncompatibleVariableOverride,reportGeneralTypeIssues]
        description="GOOGLE_SEARCH, BING_SEARCH, SEARXNG, STEEL_DEV, TOGETHERAI, OPENAI, ANTHROPIC, HUGGING_FACE, AWS, "
        "POSTGRESQL, MYSQL, KAFKA, MONGODB, GCP, AZURE and LOGIN (its apiSecret is a browser's storage state), in any "
        "spelling; another name is stored as well, and injects nothing."
    )
    everywhere: bool = Field(default=False, validation_alias="global")
    """Whether all organizations may use it; needs the scope `super_admin`."""


class CredentialTest(CredentialUpdate):
    """Either the id of a stored credential, or the fields of one that is not stored."""

    model_config = example({"credentialId": "01a1fe8d-908f-7f00-a12a-dce377429a92"})

    credential_id: str | None = None
    """Id of the stored credential to ask with."""
    id: str | None = None
    """The same as `credentialId`."""
