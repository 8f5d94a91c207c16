"""Stages of plugins that were written for an earlier version are refused, not ignored."""

from __future__ import annotations

import pytest

from pipelines.planning.stage import RowStage, register_stage


@pytest.mark.parametrize(("former", "now"), [("build_worker", r"work\(self, tools\)"), ("sets_order", "capabilities")])
def test_a_stage_with_a_former_method_is_refused_with_the_one_of_today(former: str, now: str) -> None:
    stage = type("Old", (RowStage,), {former: lambda _self: None})
    with pytest.raises(TypeError, match=f"The stage 'old' has `{former}`, .* write `{now}"):
        register_stage("old")(stage)
