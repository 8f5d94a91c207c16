"""The provider by which people sign in to the console."""

from __future__ import annotations

import re
from typing import Any, Literal, NamedTuple, Self, get_args
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from core.infra.settings.area import Area

LOOPBACK = ("127.0.0.1", "localhost", "::1")
Role = Literal["viewer", "operator", "editor", "admin"]  # each may do what the one before it may
ROLES: tuple[Role, ...] = get_args(Role)
_PAIR = re.compile(rf"(?P<group>.+)=(?P<organization>[\w.-]+)(:(?P<role>{'|'.join(ROLES)}))?")


class GroupRights(NamedTuple):
    """What the members of a provider's group get: an organization, by its slug, and a role, unless that is set here."""

    group: str
    organization: str
    role: Role | None


class OidcSettings(Area, alias_generator="oidc_{}".format):
    """Sign-in by OpenID Connect."""

    issuer: str | None = Field(
        default=None, description="Address of the provider by which people sign in; only keys do when unset."
    )
    client_id: str | None = Field(default=None, description="Id of this service at the provider.")
    client_secret: SecretStr | None = Field(
        default=None, description="Its secret there; none for a public client, which PKCE alone protects."
    )
    scopes: str = Field(
        default="openid profile email", description="What the provider is asked for; Dex needs `groups` too."
    )
    claim: str = Field(default="groups", description="Claim of the ID token, or of the user info, that names groups.")
    groups: tuple[GroupRights, ...] = Field(
        default=(),
        description="Who may sign in: `group=organization:role`, with the organization's slug and one of the roles "
        f"{', '.join(ROLES)}; without `:role`, admins choose it in the console. The first group that someone has "
        "decides on the organization, and the highest role of that counts. Whom no group names is refused.",
    )

    @field_validator("groups", mode="before")
    @classmethod
    def _split_groups(cls, value: object) -> object:
        if not isinstance(value, str):
            return value
        parts = [part.strip() for part in value.split(",") if part.strip()]
        return tuple(cls._parse_pair(part) for part in parts)

    @staticmethod
    def _parse_pair(part: str) -> GroupRights:
        found = _PAIR.fullmatch(part)
        if found is None:
            sentence = f"SPINDLE_OIDC_GROUPS: '{part[:200]}' is not group=organization:role, with a role of "
            raise ValueError(sentence + f"{', '.join(ROLES)}.")
        rights: dict[str, Any] = found.groupdict()
        return GroupRights(**rights)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.issuer is None:
            return self
        parts = urlsplit(self.issuer)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            raise ValueError("SPINDLE_OIDC_ISSUER is an https:// address: over http, anyone between could sign in.")
        if self.client_id is None:
            raise ValueError("SPINDLE_OIDC_ISSUER needs SPINDLE_OIDC_CLIENT_ID, which the provider gives.")
        if not self.groups:
            sentence = "SPINDLE_OIDC_ISSUER needs SPINDLE_OIDC_GROUPS, such as staff=default:viewer"
            raise ValueError(f"{sentence}: whom no group names is refused.")
        return self
