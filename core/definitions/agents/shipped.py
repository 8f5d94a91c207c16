"""Agents of the pipelines that plugins ship, copied into the organizations that have the plugins.

Each plugin has a category of its name. It is made once, with all agents of the plugin: changes and deletions of the
organization stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import structlog
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.agents.models import AgentCreate
from core.definitions.agents.repository import AgentRepository
from core.definitions.categories.models import CategoryCreate
from core.definitions.categories.repository import CategoryRepository
from core.definitions.plugins.repository import PluginRepository
from core.definitions.plugins.scope import INSTALLED, read_manifest
from core.definitions.plugins.uploads import check_shipped
from core.errors import SpindleError
from core.infra.database import Database
from core.infra.repository import lock_organization
from core.tables import Category, Organization
from pipelines.plugin import describe_error
from pipelines.registry import ENGINE, load_plugins

Texts = Mapping[str, str]

log = structlog.get_logger()


def add_shipped_agents(session: Session, organization_id: str) -> None:
    """Add the agents of plugins that the organization has and has no category of."""
    shipped = dict(_list_shipped(session, organization_id))
    if not shipped:
        return
    lock_organization(session, organization_id)
    categories, agents = CategoryRepository(session, organization_id), AgentRepository(session, organization_id)
    known = set(session.scalars(select(Category.name).where(Category.organization_id == organization_id)))
    for plugin, (description, texts) in shipped.items():
        if plugin not in known:
            category = categories.create(CategoryCreate(name=plugin, description=description))
            for name, text in texts.items():
                agents.create(AgentCreate(name=name, category_id=category.id, pipeline_yaml=text))


def add_all_shipped_agents(database: Database) -> None:
    """Add the agents of the environment's plugins to all organizations, as a service starts."""
    if not dict(_list_installed(set())):
        return
    with database.read() as session:
        organizations = session.scalars(select(Organization.id)).all()
    for each in organizations:
        with database.write() as session:
            add_shipped_agents(session, each)


def _list_shipped(session: Session, organization_id: str) -> Iterator[tuple[str, tuple[str, Texts]]]:
    """Yield the plugins of an organization that ship pipelines, with their descriptions and the texts by name."""
    plugins = PluginRepository(session, organization_id)
    yield from _list_installed(
        {each.plugin_id for each in plugins.list_disabled() if each.build_type in ("", INSTALLED)}
    )
    for build in plugins.list_available():
        manifest = read_manifest(build)
        if manifest.pipelines:
            yield build.plugin_id, (manifest.description, manifest.pipelines)


def _list_installed(disabled: set[str]) -> Iterator[tuple[str, tuple[str, Texts]]]:
    for each in load_plugins().loaded:
        if each.distribution == ENGINE:  # the engine's own make their agents where they are wanted
            continue
        try:
            texts = each.plugin.read_pipelines()
            check_shipped(texts)
        except SpindleError as error:
            log.warning("the pipelines of a plugin are left out", plugin=each.name, reason=error.sentence)
        except Exception as error:  # a plugin may raise anything
            log.warning("the pipelines of a plugin are left out", plugin=each.name, reason=describe_error(error))
        else:
            if texts and each.name not in disabled:
                yield each.name, (each.plugin.description, texts)
