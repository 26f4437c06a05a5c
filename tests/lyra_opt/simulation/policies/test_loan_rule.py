"""Which jobs go on loan: by how long they run, and nobody waits for a loan."""

from __future__ import annotations

import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.simulation.policies.composition import LoanRule
from lyra_opt.simulation.scheme import ComposedScheme
from tests.lyra_opt.simulation.replays import (
    borrowing,
    gpu_s,
    job_of,
    lending,
    preemptions,
    replay,
    starts,
)

HOUR_S = 3600.0
RULE = LoanRule(longest_h=2.0, first_h=0.5)


def scheme(loan_rule: LoanRule | None) -> ComposedScheme:
    """Return a scheme that borrows, with or without the rule."""
    return ComposedScheme(
        name="borrowing",
        summary="for tests",
        queue="shortest-base",
        reclaimer="lyra-greedy",
        loan_rule=loan_rule,
    )


@pytest.mark.parametrize(
    ("left_h", "admits", "prefers"), [(0.5, True, True), (0.6, True, False), (2.1, False, False)]
)
def test_limits(left_h: float, admits: bool, prefers: bool) -> None:
    """Both are in hours and include the limit."""
    assert RULE.admits(left_h * HOUR_S) is admits
    assert RULE.prefers(left_h * HOUR_S) is prefers


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"longest_h": 0}, "longest_h"), ({"longest_h": 1, "first_h": 2}, "first_h")],
)
def test_bad_limits_are_refused(fields: dict[str, float], named: str) -> None:
    """With the field that is wrong."""
    with pytest.raises(FieldError, match=named):
        LoanRule(**fields)


def test_short_jobs_leave_own_servers_to_others() -> None:
    """A job of 30 minutes goes on loan though own servers have room; by itself it would not."""
    jobs = [job_of("short", 0, 0.5 * HOUR_S, fungible=True)]
    cluster, plan = borrowing(1, 1, 1), lending(1, interval_s=1e5)
    assert gpu_s(replay(jobs, cluster, scheme(RULE), plan=plan), on_loan=True) == 0.5 * HOUR_S
    assert gpu_s(replay(jobs, cluster, scheme(None), plan=plan), on_loan=True) == 0


def test_long_jobs_are_not_lost_to_a_reclaim() -> None:
    """Who runs for 3 hours waits for the own server that is busy for one, and keeps what it does.

    Without the rule it runs on loan, and is stopped when the server is called back at 2 hours.
    """
    jobs = [job_of("busy", 0, HOUR_S), job_of("long", 1, 3 * HOUR_S, fungible=True)]
    cluster, plan = borrowing(1, 1, 1), lending(1, 0, interval_s=2 * HOUR_S)
    kept = replay(jobs, cluster, scheme(RULE), plan=plan)
    assert starts(kept) == [0, HOUR_S]
    assert preemptions(kept) == 0
    assert preemptions(replay(jobs, cluster, scheme(None), plan=plan)) == 1


def test_what_counts_is_what_is_believed() -> None:
    """A job of 3 hours that is taken for one of 30 minutes goes on loan."""
    job = job_of("long", 0, 3 * HOUR_S, fungible=True, estimated_work_worker_s=0.5 * HOUR_S)
    cluster, plan = borrowing(1, 1, 1), lending(1, interval_s=1e5)
    assert gpu_s(replay([job], cluster, scheme(RULE), plan=plan), on_loan=True) == 3 * HOUR_S
