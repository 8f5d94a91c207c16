"""Builds of plugins and their installations, as one caller may see and change them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Select, func, or_, select
from sqlalchemy.orm import Session

from core.definitions.identity.api_keys import Identity
from core.definitions.identity.roles import SUPER_ADMIN
from core.errors import BadInput, Conflict, Forbidden, NotFound
from core.tables import DisabledPlugin, Organization, PluginBuild, PluginInstallation, now

MAX_ID = 2**31 - 1
NO_INSTALLATION = "There is no plugin installation with this id."


class PluginRepository:
    """The plugins that an organization has: its own, and those that the operator has installed for it or for all."""

    def __init__(self, session: Session, organization_id: str) -> None:
        self.session = session
        self.organization_id = organization_id

    def list_installations(self) -> Sequence[tuple[PluginInstallation, PluginBuild]]:
        """Return the organization's installations with their builds, oldest first."""
        rows = self.session.execute(self._select()).all()
        return [(each, build) for each, build in rows if self._has(each)]

    def get_installation(self, installation_id: int) -> tuple[PluginInstallation, PluginBuild]:
        if not 0 < installation_id <= MAX_ID:
            raise NotFound(NO_INSTALLATION)
        found = self.session.execute(self._select().where(PluginInstallation.id == installation_id)).first()
        if found is None or not self._has(found[0]):
            raise NotFound(NO_INSTALLATION)
        return found[0], found[1]

    def list_available(self) -> Sequence[PluginBuild]:
        """Return the newest enabled builds of the plugins that the organization has and has not disabled."""
        disabled = self.list_disabled()
        newest: dict[str, PluginBuild] = {}
        for installation, build in self.list_installations():
            usable = installation.enabled and build.error is None
            if not usable or is_disabled(disabled, build.plugin_id, build.build_type):
                continue
            known = newest.get(build.plugin_id)
            if known is None or (known.build_number, known.id) < (build.build_number, build.id):
                newest[build.plugin_id] = build
        return list(newest.values())

    def list_disabled(self) -> Sequence[DisabledPlugin]:
        """Return the builds that the organization has disabled, and the operator for all."""
        owner = DisabledPlugin.organization_id
        query = select(DisabledPlugin).where(or_(owner == self.organization_id, owner.is_(None)))
        return self.session.scalars(query.order_by(DisabledPlugin.id)).all()

    def _select(self) -> Select[tuple[PluginInstallation, PluginBuild]]:
        owner = PluginInstallation.organization_id
        query = select(PluginInstallation, PluginBuild).join(PluginBuild, PluginBuild.id == PluginInstallation.build_id)
        return query.where(or_(owner == self.organization_id, owner.is_(None))).order_by(PluginInstallation.id)

    def _has(self, installation: PluginInstallation) -> bool:
        named = installation.organization_ids
        own = installation.organization_id == self.organization_id
        return own or not named or self.organization_id in named


class AdminRepository(PluginRepository):
    """The plugins as an administrator changes them: an `admin` its organization's, a `super_admin` all."""

    def __init__(self, session: Session, caller: Identity) -> None:
        super().__init__(session, caller.organization_id)
        self.is_operator = caller.may(SUPER_ADMIN)

    def _has(self, installation: PluginInstallation) -> bool:
        return (self.is_operator and installation.organization_id is None) or super()._has(installation)

    @property
    def owner_id(self) -> str | None:
        """The owner of the caller's records: its organization, or nobody for the operator."""
        return None if self.is_operator else self.organization_id

    def check_organizations(self, named: Sequence[str]) -> list[str]:
        """Return the ids; raise BadInput for unknown organizations, Forbidden where they are not the caller's."""
        ids = list(dict.fromkeys(named))
        if self.is_operator:
            known = set(self.session.scalars(select(Organization.id)))
            if unknown := [each for each in ids if each not in known]:
                sentence = f"There is no organization with the id '{unknown[0][:60]}'."
                raise BadInput(sentence, code="not-found", path="organizationIds")
            return ids
        if any(each != self.organization_id for each in ids):
            raise Forbidden("Only a super_admin installs plugins for other organizations.", code="missing-scope")
        return [self.organization_id]

    def find_owned_build(self, plugin_id: str, build_type: str, build_number: int) -> PluginBuild | None:
        """Return the build that the caller's organization has uploaded, or for the operator its own one first."""
        owner = PluginBuild.organization_id
        own = owner == self.organization_id
        query = select(PluginBuild).where(
            or_(own, owner.is_(None)) if self.is_operator else own,
            PluginBuild.plugin_id == plugin_id,
            PluginBuild.build_type == build_type,
            PluginBuild.build_number == build_number,
        )
        return self.session.scalars(query.order_by(owner.is_not(None))).first()

    def count_owned_builds(self) -> int:
        query = select(func.count()).where(PluginBuild.organization_id == self.owner_id)
        return self.session.scalar(query) or 0

    def has_file(self, digest: str) -> bool:
        """Return whether a build of anybody has the file with this digest."""
        return self.session.scalar(select(PluginBuild.id).where(PluginBuild.digest == digest).limit(1)) is not None

    def install(self, build: PluginBuild, organizations: list[str]) -> PluginInstallation:
        installation = PluginInstallation(
            organization_id=self.owner_id,
            build_id=build.id,
            organization_ids=organizations,
            installed_by=self.organization_id,
            enabled_by=self.organization_id,
            enabled_at=now(),
        )
        self.session.add(installation)
        self.session.flush()
        return installation

    def list_changeable(self) -> Sequence[tuple[PluginInstallation, PluginBuild]]:
        """Return the installations that the caller may change, oldest first."""
        return [(each, build) for each, build in self.list_installations() if self._may_change(each)]

    def get_changeable(self, installation_id: int) -> tuple[PluginInstallation, PluginBuild]:
        """Return an installation; raise NotFound, and Forbidden for the operator's."""
        found = self.get_installation(installation_id)
        if not self._may_change(found[0]):
            raise Forbidden("This installation is the operator's: only a super_admin changes it.", code="missing-scope")
        return found

    def set_enabled(self, installation: PluginInstallation, enabled: bool) -> None:
        if enabled and not installation.enabled:
            installation.enabled_by, installation.enabled_at = self.organization_id, now()
        installation.enabled = enabled
        self.session.flush()

    def disable(self, plugin_id: str, build_type: str | None) -> None:
        """Disable a plugin for the caller's organization, or by the operator for all."""
        if self._find_disabled(plugin_id, build_type or "") is None:
            row = DisabledPlugin(organization_id=self.owner_id, plugin_id=plugin_id, build_type=build_type or "")
            self.session.add(row)
            self.session.flush()

    def enable(self, plugin_id: str, build_type: str | None) -> None:
        """Undo `disable`; without a build type for all of them. Raise Conflict where the plugin stays disabled."""
        for row in self.list_disabled():
            same = row.plugin_id == plugin_id and build_type in (None, row.build_type)
            if same and row.organization_id == self.owner_id:
                self.session.delete(row)
        self.session.flush()
        left = [each for each in self.list_disabled() if each.plugin_id == plugin_id]
        if any(each.organization_id != self.owner_id for each in left):
            raise Conflict("The operator has disabled this plugin for all.", code="disabled")
        if build_type is not None and any(not each.build_type for each in left):
            sentence = "All builds of this plugin are disabled. Enable it without buildType first."
            raise Conflict(sentence, code="disabled")

    def _may_change(self, installation: PluginInstallation) -> bool:
        return self.is_operator or installation.organization_id is not None

    def _find_disabled(self, plugin_id: str, build_type: str) -> DisabledPlugin | None:
        rows = (each for each in self.list_disabled() if each.organization_id == self.owner_id)
        return next((each for each in rows if (each.plugin_id, each.build_type) == (plugin_id, build_type)), None)


def is_disabled(disabled: Sequence[DisabledPlugin], plugin_id: str, build_type: str) -> bool:
    """Return whether a row disables the plugin's builds of this type."""
    return any(each.plugin_id == plugin_id and each.build_type in ("", build_type) for each in disabled)
