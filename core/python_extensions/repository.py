"""Python extensions: functions that an agent's pipeline calls, checked by their text and never run here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Select
from sqlalchemy.orm import Session

from core.agents.repository import AgentRepository, bad_pipeline
from core.errors import BadInput, Conflict, Detail
from core.infra.repository import Repository, lock_organization
from core.infra.validation import check_name, check_storable, deeper_than
from core.tables import PythonExtension
from pipelines import Pipeline, PipelineError, Transforms
from pipelines.language import nodes as document
from pipelines.language.names import normalize
from pipelines.language.nodes import Plain, to_node
from pipelines.planning.script import script_of
from pipelines.transforms import ROW_TRANSFORMS
from pipelines.transforms import source as texts

ROW_TRANSFORM = "row_transform"
TYPES = (ROW_TRANSFORM,)
INLINE = "python_extensions.stages"
_NOT_CALLABLE = re.compile(r"^\s|\s\Z|[\x00-\x1f\x7f-\x9f]|\$\{")
_NOT_IN_YAML = re.compile("[\x7f-\x9f\u2028\u2029\ufffe\uffff]")  # as it stands; JSON allows it


@dataclass(frozen=True, slots=True)
class Function:
    """One that a pipeline can call by its name."""

    name: str
    type: str
    source: str


@dataclass(frozen=True, slots=True)
class Processed:
    """The functions that stand in a pipeline's text, and its script with them; `code` is None without a pipeline."""

    functions: Sequence[Function]
    warnings: Sequence[str]
    code: str | None


class PythonExtensionRepository(Repository[PythonExtension]):
    """Of one organization's agents. Names ignore case and underscores, as they do in a pipeline.

    `viewer_key_id` hides those of agents in the private categories of other keys.
    """

    row = PythonExtension
    noun = "Python extension"

    def __init__(self, session: Session, organization_id: str, *, viewer_key_id: str | None = None) -> None:
        super().__init__(session, organization_id)
        self._viewer_key_id = viewer_key_id
        self._agents = AgentRepository(session, organization_id, viewer_key_id=viewer_key_id)

    def list(self) -> Sequence[PythonExtension]:
        """Those of all agents."""
        return self._fetch_page(self._select(), None, None)

    def of_agent(
        self, agent_id: str, *, limit: int | None = None, after: str | None = None
    ) -> Sequence[PythonExtension]:
        """Raises NotFound for an agent that is not there."""
        agent = self._agents.get(agent_id)
        return self._fetch_page(self._select().where(PythonExtension.agent_id == agent.id), limit, after)

    def transforms(self, agent_id: str) -> dict[str, str]:
        """Texts of the agent's row transforms by name, as an execution spec has them."""
        return {each.name: each.source for each in self.of_agent(agent_id) if each.type == ROW_TRANSFORM}

    def get(self, extension_id: str) -> PythonExtension:
        return self._fetch_by_id(extension_id)

    def create(
        self, agent_id: str, *, source: str, name: str | None = None, type: str = ROW_TRANSFORM
    ) -> PythonExtension:
        """Raises BadInput with the lines of what is wrong, Conflict for a name that the agent has already."""
        agent, function = self._agents.get(agent_id), checked_function(source, name, type)
        self._check_free(agent.id, function.name)
        extension = PythonExtension(
            organization_id=self.organization_id,
            agent_id=agent.id,
            name=function.name,
            folded_name=normalize(function.name),
            type=function.type,
            source=function.source,
        )
        self.session.add(extension)
        self.session.flush()
        return extension

    def update(self, extension_id: str, changes: Mapping[str, Any]) -> PythonExtension:
        """Merges `name`, `type` and `source`; executions that are on their way keep the text they began with."""
        extension = self.get(extension_id)
        old = {"name": extension.name, "type": extension.type, "source": extension.source}
        function = checked_function(**{**old, **changes})
        if normalize(function.name) != extension.folded_name:
            self._check_free(extension.agent_id, function.name)
        extension.name, extension.folded_name = function.name, normalize(function.name)
        extension.type, extension.source = function.type, function.source
        self.session.flush()
        return extension

    def delete(self, extension_id: str) -> None:
        self.session.delete(self.get(extension_id))
        self.session.flush()

    def _select(self) -> Select[tuple[PythonExtension]]:
        own = super()._select()
        if self._viewer_key_id is None:
            return own
        return own.where(PythonExtension.agent_id.in_(self._agents.visible_ids()))

    def _check_free(self, agent_id: str, name: str) -> None:
        lock_organization(self.session, self.organization_id)
        same = (PythonExtension.agent_id == agent_id, PythonExtension.folded_name == normalize(name))
        if self.session.scalar(self._select().where(*same)):
            raise Conflict(f"The agent has a Python extension called '{name}' already.")


def provided() -> Sequence[str]:
    """Row transforms of plugins, which every pipeline may call."""
    return sorted(each.name for each in ROW_TRANSFORMS)


def problems(name: str, source: str) -> tuple[str, ...]:
    """What is wrong with the text of a row transform, each with its line; nothing when it can be used."""
    try:
        texts.read_function(name, source)
    except PipelineError as error:
        return tuple(str(problem) for problem in error.problems)
    return ()


def checked_function(source: object, name: str | None = None, type: str = ROW_TRANSFORM) -> Function:
    """Raises BadInput with the lines of what is wrong; without a name it has that of the only function in the text."""
    if not isinstance(source, str):
        sentence = "A Python extension needs a 'function', which is text."
        raise BadInput(sentence, [Detail("function", sentence)])
    check_storable("function", source)
    check_storable("extensionType", type)
    known = next((each for each in TYPES if normalize(each) == normalize(type)), None)
    if known is None:
        sentence = f"There is no Python extension of the type '{type}'; there is {', '.join(TYPES)}."
        raise BadInput(sentence, [Detail("extensionType", sentence)])
    name = _only_name(source) if name is None else name
    check_name(name)
    if _NOT_CALLABLE.search(name):
        sentence = "'name' may have no '${', no control character and no white space at its ends."
        raise BadInput(sentence, [Detail("name", sentence)])
    if wrong := problems(name, source):
        raise _unusable(name, wrong)
    return Function(name, known, source)


def _only_name(source: str) -> str:
    try:
        names = texts.list_functions(source)
    except PipelineError as error:
        raise _unusable("", [str(problem) for problem in error.problems]) from error
    if len(names) != 1:
        raise BadInput("A Python extension needs a 'name'.", [Detail("name", "'name' is missing.")])
    return names[0]


def _unusable(name: str, wrong: Sequence[str]) -> BadInput:
    called = f"The function '{name}'" if name else "The function"
    return BadInput(f"{called} cannot be used: {wrong[0]}", [Detail("function", each) for each in wrong])


def pyspark_code(extension: PythonExtension) -> str:
    """A script that calls the function for each row of a CSV file, with arguments that the environment has.

    Raises Conflict where the text is not right any more: it was stored by other rules than today's.
    """
    try:
        required = texts.read_function(extension.name, extension.source).keywords.required
    except PipelineError as error:
        sentence = f"The function '{extension.name}' cannot be used any more: {error.problems[0]}"
        raise Conflict(sentence, [Detail("function", str(each)) for each in error.problems]) from error
    stages: list[Plain] = [
        {"stage": "load_csv", "args": {"path": "${INPUT_PATH}", "header": True}},
        {
            "stage": f"python_row_transform:{extension.name}",
            "args": {name: f"${{ARG_{name}}}" for name in required},
        },
    ]
    return script_of(to_node({"pipeline": stages}), {extension.name: extension.source})


def pipeline_text(pipeline: Mapping[str, object]) -> str:
    """The YAML of a pipeline that came as a JSON object; raises ValueError when it is nested deeper than a text may."""
    if deeper_than(document.MAX_DEPTH, pipeline):
        raise ValueError(f"a pipeline is nested at most {document.MAX_DEPTH} deep")
    text = json.dumps(pipeline, ensure_ascii=False)
    return _NOT_IN_YAML.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def process(text: str) -> Processed:
    """Raises BadInput for a pipeline or functions that are wrong, by line and name."""
    try:
        root = document.parse(text)
        functions = _inline(root.to_plain())
        if isinstance(root, document.MappingNode) and root.get("pipeline") is None:
            return Processed(functions, (), None)
        transforms = Transforms({each.name: each.source for each in functions})
        warnings = Pipeline(root).check(transforms)
    except PipelineError as error:
        raise bad_pipeline(error) from error
    return Processed(functions, [str(each) for each in warnings], script_of(root, {}))


def _inline(root: Plain) -> Sequence[Function]:
    """The functions that stand under `python_extensions`; raises BadInput that names those that are wrong."""
    functions: list[Function] = []
    wrong: list[Detail] = []
    folded: dict[str, str] = {}
    for name, given in _stages(root).items():
        first = folded.setdefault(normalize(name), name)
        if first != name:
            sentence = f"'{name}' and '{first}' are one name: case and underscores do not count."
            wrong.append(Detail(f"{INLINE}.{name}", sentence))
            continue
        try:
            functions.append(_function(name, given))
        except BadInput as error:
            wrong.extend(Detail(f"{INLINE}.{name}.{each.path}", each.message) for each in error.details)
    if wrong:
        raise BadInput(f"A Python extension cannot be used: {wrong[0].path}: {wrong[0].message}", wrong)
    return functions


def _stages(root: Plain) -> Mapping[str, Plain]:
    """Each level may be left out; a root that is no map is no pipeline, which others tell."""
    found = root if isinstance(root, dict) else None
    path: list[str] = []
    for key in INLINE.split("."):
        found = _map(".".join(path), found).get(key)
        path.append(key)
    return _map(INLINE, found)


def _map(path: str, value: Plain) -> Mapping[str, Plain]:
    if value is not None and not isinstance(value, dict):
        raise BadInput(f"'{path}' is not a map: functions stand in '{INLINE}' by name.", [Detail(path, "is not a map")])
    return value or {}


def _function(name: str, given: Plain) -> Function:
    fields = given if isinstance(given, dict) else {}
    type = fields.get("type")
    return checked_function(fields.get("function"), name, ROW_TRANSFORM if type is None else str(type))
