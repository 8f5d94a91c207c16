from __future__ import annotations

import pytest

from pipelines.errors import PipelineError
from pipelines.language.nodes import parse
from pipelines.language.parameters import (
    find_parameter_defaults,
    find_parameters,
    find_required_parameters,
    replace_parameters,
)

TEXT = """
url: "https://shop.example/${CATEGORY:-books}?page=${PAGE}"
label: "${CATEGORY}"
empty: "${NOTHING:-}"
"""


def test_a_default_takes_the_place_of_a_value() -> None:
    root = parse(TEXT)
    assert find_parameters(root) == {"CATEGORY", "PAGE", "NOTHING"}
    assert find_required_parameters(root) == {"CATEGORY", "PAGE"}
    assert find_parameter_defaults(root) == {"NOTHING": ""}
    assert find_parameter_defaults(parse('[a, "${PAGE:-1}${PAGE:-1}", "${A:-b}", "${A:-c}"]')) == {"PAGE": "1"}
    with pytest.raises(PipelineError) as error:
        replace_parameters(root, {"PAGE": 2})
    assert [problem.line for problem in error.value.problems] == [3]
    only_defaults = parse('{url: "${CATEGORY:-books}/${PAGE:-a b}", empty: "${NOTHING:-}"}')
    assert replace_parameters(only_defaults, {"PAGE": 2}).to_plain() == {"url": "books/2", "empty": ""}
