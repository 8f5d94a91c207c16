"""intelligentJoin and intelligentExplore: follow the links that a prompt names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Self

from pydantic import Field, NonNegativeInt, PositiveInt

from pipelines.browser.actions import Browsing
from pipelines.browser.actions.prompt import Prompt
from pipelines.contract.questions import Question
from pipelines.contract.workers import Tools
from pipelines.extract.document import Element
from pipelines.extract.rows import Link, PageSelector, Row
from pipelines.inference.lists import find_main_links, find_next_links
from pipelines.language.names import normalize, truncate
from pipelines.planning.stage import Fetching, LinkStage, register_stage

_AUTO = "auto"
_PROMPT_SHOWN = 60  # characters
_LONGEST_TEXT = 10_000  # of a link


class _PromptedLinks(LinkStage):
    """Base of stages that follow the links that a prompt names, or those of the page's main list."""

    action_prompt: str = Field("", alias="actionPrompt", description="what to do on each page in the browser")
    limit: PositiveInt | None = Field(default=None, description="links per page, in document order")
    use_wget: bool | None = Field(
        default=None,
        alias="useWget",
        description="plain HTTP or the browser; by default as the page before was fetched",
    )
    required: bool = Field(default=False, description="fail the run when no page that was read has a link")

    @property
    def wanted(self) -> str:
        """The prompt for the links, or `auto`."""
        raise NotImplementedError

    @property
    def asks_questions(self) -> bool:
        return normalize(self.wanted) != _AUTO

    @property
    def reads_page(self) -> bool:
        return True

    def list_selectors(self) -> tuple[PageSelector, ...]:
        return (PageSelector(None, self.wanted, self.required, is_prompt=True),)

    def requires_answer(self, prompt: str, field: str) -> bool:
        return self.required and prompt == self.wanted

    def use_browser(self) -> Self:
        return self if self.use_wget is not None else self.model_copy(update={"use_wget": False})

    @property
    def fetching(self) -> Fetching:
        acts = self.action_prompt and normalize(self.action_prompt) != "none"
        in_browser = acts if self.use_wget is None else not self.use_wget
        return Fetching(Browsing((Prompt(prompt=self.action_prompt),) if acts else (), False) if in_browser else None)

    def describe(self) -> str:
        return truncate(self.wanted, _PROMPT_SHOWN)

    def work(self, tools: Tools) -> Callable[[Row], Iterable[Link]]:
        question, limit, is_auto = Question(self.wanted, kind="links"), self.limit, not self.asks_questions

        def find(element: Element) -> tuple[list[Element], str | None]:
            if is_auto:
                return find_main_links(element), None
            found = find_next_links(question.prompt, element)
            return (found, None) if found is not None else tools.reader.read_items(question, element)

        def links(row: Row) -> Iterator[Link]:
            if row.element is None:
                return
            found, error = find(row.element)
            if error:
                yield Link(None, None, error)
            yield from islice(_make_links(found), limit)

        return links


def _make_links(elements: Iterable[Element]) -> Iterator[Link]:
    """Yield each address once, since an item may have several links to one page."""
    seen: set[str] = set()
    for element in elements:
        link = element if element.attr("href") else element.first("a[href]")
        if link is not None and (url := link.link()) and url not in seen:
            seen.add(url)
            yield Link(url, truncate(link.text(), _LONGEST_TEXT))


@register_stage("intelligentJoin")
class IntelligentJoin(_PromptedLinks):
    """Follow the links that a prompt names: one row per link, in document order, each with the linked page.

    `auto` means the links of the page's main list, which is found without a language model. Selectors for other
    prompts are inferred and proven as in iextract. A page without such links keeps its row.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: intelligentJoin, args: [auto, none, {limit: 10}]}
  - {stage: extract, args: [{selector: h1, as: title}]}
"""

    positional = ("selectorPrompt", "actionPrompt", "limit")
    selector_prompt: str = Field(_AUTO, alias="selectorPrompt", min_length=1, description="the links, or auto")

    @property
    def wanted(self) -> str:
        return self.selector_prompt


@register_stage("intelligentExplore")
class IntelligentExplore(_PromptedLinks):
    """Follow links of links that a prompt names: one row per page, the first page included, and no page twice.

    For a prompt such as `next page`, a page's own `rel=next` is followed first, without a language model. Selectors for
    other prompts are inferred and proven as in iextract.
    """

    example = """
fetch: {url: "${SHOP}/"}
pipeline:
  - {stage: intelligentExplore, args: [next page, 10]}
  - {stage: flatSelect, args: [li.product, {selector: a, as: name}]}
"""

    positional = ("prompt", "depth")
    prompt: str = Field(min_length=1)
    depth: NonNegativeInt = Field(1, le=10_000)

    @property
    def wanted(self) -> str:
        return self.prompt

    @property
    def max_depth(self) -> int | None:
        return self.depth

    def describe(self) -> str:
        return f"{super().describe()} depth {self.depth}"
