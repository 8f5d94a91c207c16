"""Names in declarations: which may repeat, and how jobs of a package refer to agents that share one."""

from __future__ import annotations

from typing import Any

import pytest

from core.integrations.declarations.models import Declaration

TWINS: dict[str, Any] = {
    "categories": [{"name": "A"}, {"name": "B"}],
    "agents": [
        {"name": "Twin"},
        {"name": "Twin"},
        {"name": "Twin#2"},
        {"name": "Twin", "category": "A"},
        {"name": "x/Twin", "category": "B"},
        {"name": "Twin", "category": "B/x"},
    ],
    "projects": [
        {"name": "P", "jobs": [{"name": "j", "agent": "Twin#2#2"}, {"name": "j", "agent": "A/Twin"}, {"name": "k"}]},
        {"name": "Q", "jobs": [{"name": "j", "agent": "Twin#2"}]},
    ],
}


def declare(**sections: Any) -> Declaration:
    return Declaration.model_validate(sections)


def test_each_agent_has_a_name_of_its_own():
    names = ["Twin", "Twin#2", "Twin#2#2", "A/Twin", "B/x/Twin", "B/x/Twin#2"]
    assert declare(**TWINS).agent_names == names


def test_one_project_is_selected_with_what_it_refers_to():
    selected = declare(**TWINS).select_project("P")
    assert selected
    assert selected.agent_names == ["Twin#2", "A/Twin"]
    assert [each.name for each in selected.categories or ()] == ["A"]
    assert [[job.agent for job in project.jobs or ()] for project in selected.projects or ()] == [
        ["Twin#2", "A/Twin", None]
    ]


def test_all_agents_of_a_name_are_selected_because_their_order_tells_them_apart():
    selected = declare(**TWINS).select_project("Q")
    assert selected
    assert selected.agent_names == ["Twin", "Twin#2"]
    assert selected.categories == []


def test_an_unknown_project_is_not_selected():
    assert declare(**TWINS).select_project("R") is None


@pytest.mark.parametrize(
    ("sections", "strict", "complete"),
    [
        ({"categories": [{"name": "c"}] * 3}, (("category", "c"), 3), (("category", "c"), 3)),
        ({"agents": [{"name": "a"}] * 2}, (("agent", "", "a"), 2), None),
        ({"projects": [{"name": "p", "jobs": [{"name": "j"}] * 2}]}, (("job", "p", "j"), 2), None),
        (
            {"agents": [{"name": "a", "extensions": [{"name": "tidyUp"}, {"name": "tidy_up"}]}]},
            (("extension", "a", "tidyup"), 2),
            (("extension", "a", "tidyup"), 2),
        ),
        ({"agents": [{"name": "a", "category": "c"}, {"name": "a"}]}, None, None),
    ],
    ids=["categories", "agents", "jobs", "extensions", "different"],
)
def test_names_that_repeat_are_found(sections: dict[str, Any], strict: Any, complete: Any):
    declaration = declare(**sections)
    assert (declaration.find_repeated(), declaration.find_repeated(complete=True)) == (strict, complete)
