"""What is returned where there is no time for a rule is a valid schedule all the same."""

from __future__ import annotations

from collections import Counter

from hypothesis import given

from lyra_opt.allocation.checker import check
from lyra_opt.allocation.heuristics.policy_solver import quick_schedule
from lyra_opt.allocation.instance import Objective
from lyra_opt.allocation.schedules.evaluator import mean_jct_s, moldable_schedule
from lyra_opt.core.result import Limits
from lyra_opt.core.stopwatch import limited_to
from lyra_opt.testing.strategies import allocation_instances


@given(allocation_instances(objective=Objective.MEAN_JCT))
def test_moldable_schedule_is_valid_and_changes_no_workers(instance):
    schedule = moldable_schedule(instance)
    report = check(instance, schedule)
    assert report.violations == ()
    assert report.objective == mean_jct_s(instance, schedule)
    assert set(Counter(piece.job for piece in schedule.pieces).values()) == {1}


@given(allocation_instances(objective=Objective.MEAN_JCT))
def test_quick_schedule_is_valid_without_any_time(instance):
    with limited_to(Limits(time_s=0)):
        schedule = quick_schedule(instance)
    assert check(instance, schedule).violations == ()
