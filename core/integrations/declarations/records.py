"""The records of an organization that a declaration names: how they are found, written, and their changes noted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import ConfigDict
from pydantic.alias_generators import to_camel
from sqlalchemy import select
from sqlalchemy.orm import Session

from core.definitions.credentials.repository import get_job_credential_ids
from core.errors import BadInput, Conflict, Detail
from core.infra.records import RECORD
from core.infra.slugs import SlugAllocator
from core.infra.validation import format_time
from core.integrations.declarations.models import Declaration, DeclaredFields, JobDeclaration
from core.integrations.declarations.references import CREDENTIAL, DATASET, References
from core.tables import (
    Agent,
    Category,
    ExecutionPool,
    Job,
    NotificationRule,
    Owned,
    Project,
    PythonExtension,
    Schedule,
    Webhook,
    new_id,
)
from pipelines.language.names import suggest

Columns = dict[str, Any]
Key = tuple[str, str, str]  # kind, id of the record that contains it or "", name
NAMES = {  # of columns, in a declaration, where they differ
    "agent_id": "agent",
    "cloud_credential_id": "to",
    "cloud_credential_ids": "cloudCredentials",
    "input_dataset_id": "inputDataset",
    "job_id": "job",
    "pipeline_yaml": "pipeline",
    "source": "function",
}
KINDS = (
    "pool",
    "category",
    "agent",
    "extension",
    "project",
    "job",
    "schedule",
    "webhook",
    "notification",
)  # in the order of their references
MAX_CHANGES = 1_000  # in one transaction, during which nobody else can write to SQLite


class Action(StrEnum):
    CREATE = "create"
    CHANGE = "change"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class ChangedField:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    name: str
    """The field, as a declaration has it."""
    before: Any
    """The stored value; references are names."""
    after: Any
    """The declared value."""


@dataclass(frozen=True, slots=True)
class AppliedChange:
    __pydantic_config__: ClassVar[ConfigDict] = RECORD
    action: Action
    """The change that was made to the record."""
    kind: str
    """category, agent, extension, project or job."""
    name: str
    """Its name, after the names of the records that contain it: `Shop/Books`."""
    fields: tuple[ChangedField, ...] = ()
    """The changed fields of an existing record."""


class Records:
    """Stored records by their names, and the changes to them.

    With `complete`, fields may become null, and the nth record of a name is the nth stored one.
    """

    def __init__(self, session: Session, references: References, *, complete: bool) -> None:
        self.rows: defaultdict[Key, list[Any]] = defaultdict(list)
        self.matched: Counter[Key] = Counter()  # how many of the rows the declaration has
        self.names: dict[str, str] = {}  # by id, as changes show them
        self.changes: list[AppliedChange] = []
        self.changed_job_ids: list[str] = []
        self.changed_agents: dict[str, Agent] = {}
        self.unchanged = 0
        self.warnings: list[str] = []
        self.slugs: dict[str, SlugAllocator] = {}  # by project
        self.agents_by_name: defaultdict[str, list[Agent]] = defaultdict(list)
        self._session = session
        self._references = references
        self._complete = complete

    def load(
        self,
        owner: str,
        declaration: Declaration,
        *,
        categories: Sequence[Category],
        agents: Sequence[Agent],
        extensions: Sequence[PythonExtension],
        projects: Sequence[Project],
        pools: Sequence[ExecutionPool],
    ) -> None:
        """Take these records of the organization, and load the others that the declaration can name."""
        for row in categories:
            self.add("category", "", row.name, row, row.name)
        for row in agents:
            self.add("agent", row.category_id or "", row.name, row, self.join(row.category_id, row.name))
        for row in extensions:
            self.add("extension", row.agent_id, row.folded_name, row, self.join(row.agent_id, row.name))
        for row in projects:
            self.add("project", "", row.name, row, row.name)
        for row in pools:
            self.add("pool", "", row.name, row, row.name)
        if not declaration.projects:
            return
        slugs: defaultdict[str, list[str]] = defaultdict(list)
        for row in self._session.scalars(select(Job).where(Job.organization_id == owner).order_by(Job.id)):
            self.add("job", row.project_id, row.name, row, self.join(row.project_id, row.name))
            slugs[row.project_id].append(row.slug)
        for row in self._session.scalars(select(Schedule).where(Schedule.organization_id == owner)):
            name = self.join(row.project_id, row.name) if row.name else self.names[row.project_id]
            self.add("schedule", row.project_id, row.name, row, name)
        for row in self._session.scalars(select(Webhook).where(Webhook.organization_id == owner).order_by(Webhook.id)):
            self.add("webhook", row.project_id, row.url, row, self.join(row.project_id, row.url))
        for row in self._session.scalars(select(NotificationRule).where(NotificationRule.organization_id == owner)):
            self.add("notification", row.project_id, row.name, row, self.join(row.project_id, row.name))
        self.slugs = {project_id: SlugAllocator(used) for project_id, used in slugs.items()}

    def match_slugs(self, project: Project, jobs: Sequence[JobDeclaration]) -> None:
        """Order the jobs of one name as the declaration has them, by their slugs; None where it has a new one."""
        named: defaultdict[str, list[str]] = defaultdict(list)
        for job in jobs if self._complete else ():
            if job.slug is not None:
                named[job.name].append(job.slug)
        for name, slugs in named.items():
            rows = self.rows["job", project.id, name]
            known = {row.slug: row for row in rows}
            others = [row for row in rows if row.slug not in slugs]
            ordered = [known.get(slug) or (others.pop(0) if others else None) for slug in slugs]
            rows[:] = [*ordered, *others]

    def add(self, kind: str, parent_id: str, key: str, row: Owned, name: str) -> None:
        self.rows[kind, parent_id, key].append(row)
        self.names[row.id] = name

    def join(self, parent_id: str | None, name: str) -> str:
        parent = self.names.get(parent_id or "")
        return f"{parent}/{name}" if parent else name

    def get_values(self, table: type[Owned], declared: DeclaredFields, **computed: Any) -> Columns:
        """Return the columns to set: a field that is left out keeps its value unless the declaration is complete."""
        columns = table.__table__.columns
        return {
            name: value
            for name, value in (dict(declared) | computed).items()
            if name in columns and (value is not None or (self._complete and columns[name].nullable))
        }

    def write(
        self,
        key: Key,
        name: str,
        values: Columns,
        create: Callable[[Columns], Any],
        update: Callable[[str, Columns], Any],
    ) -> Any:
        """Create the row, which the next flush inserts, or update the values that differ."""
        rows, position = self.rows[key], self.matched[key]
        self.matched[key] += 1
        if len(rows) > 1 and not self._complete:
            raise reject_ambiguous(key[0], name)
        known = {column: value for column, value in values.items() if value is not None}
        try:
            if position == len(rows) or rows[position] is None:
                row = create(known)
                row.id = row.id or new_id()
                self._session.add(row)
                self.add(*key, row, name)
                if position < len(rows) - 1:
                    rows[position] = rows.pop()
                self.note_change(Action.CREATE, key[0], name, row)
                return row
            row = rows[position]
            before = {column: _get_value(row, column) for column in values}
            different = {
                column: value
                for column, value in values.items()
                if value != before[column] and (value != "" or before[column])
            }
            if not different:
                self.unchanged += 1
                return row
            fields = (self.describe(column, before[column], value) for column, value in different.items())
            self.note_change(Action.CHANGE, key[0], name, row, *fields)
            update(row.id, {column: value for column, value in different.items() if column in known})
        except (BadInput, Conflict) as error:
            raise type(error)(f"{key[0]} '{name}': {error.sentence}", error.details) from error
        for column in different.keys() - known.keys():  # which updates ignore
            setattr(row, column, None)
        self._session.flush()
        return row

    def note_change(self, action: Action, kind: str, name: str, row: Any, *fields: ChangedField) -> None:
        self.changes.append(AppliedChange(action, kind, name, fields))
        if isinstance(row, Job) and action is not Action.DELETE:
            self.changed_job_ids.append(row.id)
        elif isinstance(row, Agent):
            self.changed_agents[row.id] = row
        elif isinstance(row, PythonExtension):
            self.changed_agents[row.agent_id] = self._session.get_one(Agent, row.agent_id)
        if len(self.changes) > MAX_CHANGES and not self._complete:
            sentence = f"The declaration changes more than {MAX_CHANGES:,} records. Apply it in parts."
            raise BadInput(sentence, code="too-large")

    def find_id(self, record: str, kind: str, parent_id: str, name: str | None) -> str | None:
        """Return the id of a category, or of a job of the project, by its name."""
        if name is None:
            return None
        rows = self.rows.get((kind, parent_id, name))
        if not rows:
            known = [key[2] for key, found in self.rows.items() if key[:2] == (kind, parent_id) and found]
            raise reject_reference(record, kind, name, known)
        return rows[0].id

    def index_agents(self) -> None:
        """Collect the agents that jobs may refer to: by their categories and names, and by only their names."""
        for key, rows in self.rows.items():
            for row in rows if key[0] == "agent" else ():
                for name in {self.names[row.id], row.name}:
                    self.agents_by_name[name].append(row)

    def find_agent(self, job: str, name: str) -> Agent:
        """Return an agent by its name, with its category's unless the name is unique by itself."""
        known = self.agents_by_name.get(name, ())
        found = [row for row in known if self.names[row.id] == name] or known
        if not found:
            raise reject_reference(f"job '{job}'", "agent", name, self.agents_by_name)
        if len(found) > 1 and len({row.category_id for row in found}) == 1:
            raise reject_ambiguous("agent", self.names[found[0].id])
        if len(found) > 1:
            raise BadInput(f"job '{job}': there is more than one agent '{name}'.", path="agent")
        return found[0]

    def find_credentials(self, job: str, names: Sequence[str]) -> list[str] | None:
        """Return the ids of a job's credentials, or None after a warning that a complete declaration has others."""
        known = self._references.load_ids(CREDENTIAL) if names else {}
        ids: list[str] = []
        for name in names:
            found = known.get(name, ())
            if len(found) == 1:
                ids.append(found[0])
            elif self._complete:
                provider, _, own_name = name.partition("/")
                number = "more than one" if found else "no"
                self.warnings.append(f"job '{job}': there is {number} {provider} credential '{own_name}' here.")
                return None
            elif found:
                raise BadInput(f"job '{job}': there is more than one {CREDENTIAL} '{name}'.", path=CREDENTIAL)
            else:
                raise reject_reference(f"job '{job}'", CREDENTIAL, name, known)
        return ids

    def list_surplus(self, top: Mapping[str, Any], inner: Set[tuple[str, str]]) -> list[tuple[Key, Any, str]]:
        """Return the records that these sections omit, with their keys and names, the inner ones first."""
        surplus = [
            (key, rows)
            for key, rows in self.rows.items()
            if len(rows) > self.matched[key] and (top.get(key[0]) is not None or (key[:2] in inner and key[2]))
        ]
        found: list[tuple[Key, Any, str]] = []
        for key, (row, *others) in sorted(surplus, key=lambda each: KINDS.index(each[0][0]), reverse=True):
            if others:
                raise reject_ambiguous(key[0], self.names[row.id])
            found.append((key, row, self.names[row.id]))
        return found

    def describe(self, column: str, before: Any, after: Any) -> ChangedField:
        """Return a changed column in the terms of a declaration."""
        name = NAMES.get(column, to_camel(column))
        return ChangedField(name, self._describe_value(column, before), self._describe_value(column, after))

    def _describe_value(self, column: str, value: Any) -> Any:
        match column:
            case _ if value is None:
                return None
            case "agent_id":
                return self.names.get(value)
            case "input_dataset_id":
                return self._references.find_name(DATASET, value)
            case "cloud_credential_ids":
                return [self._references.find_name(CREDENTIAL, each) for each in value]
            case "cloud_credential_id":
                return self._references.find_name(CREDENTIAL, value)
            case "job_id":
                job = self._session.get(Job, value)
                return job.name if job else None
            case "scheduled_time":
                return format_time(value)
            case _:
                return value


def _get_value(row: Any, column: str) -> Any:
    return list(get_job_credential_ids(row)) if column == "cloud_credential_ids" else getattr(row, column)


def reject_ambiguous(kind: str, name: str) -> Conflict:
    return Conflict(f"The server has more than one {kind} '{name}'. Rename or delete all but one.", code="name-taken")


def reject_reference(record: str, kind: str, name: str, known: Iterable[str]) -> BadInput:
    similar = suggest(name, dict.fromkeys(known))
    hint = f" Did you mean {' or '.join(similar)}?" if similar else ""
    sentence = f"{record}: there is no {kind} '{name}'.{hint}"
    return BadInput(sentence, [Detail(kind, sentence, "not-found")])
