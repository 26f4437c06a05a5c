"""Parts of composed schemes that are ours: caps on long jobs, and stops for short ones."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from lyra_opt.core.numbers import HOUR_S
from lyra_opt.simulation.cluster import Cluster
from lyra_opt.simulation.metrics import require_conserved
from lyra_opt.simulation.policies.parts import (
    SAMPLE_S,
    SAMPLES_PER_UPDATE,
    CapsInForce,
    RunTimeCaps,
    VoluntaryPreemption,
)
from lyra_opt.simulation.scheme import ComposedScheme
from tests.lyra_opt.simulation.product import draw, kind_of
from tests.lyra_opt.simulation.replays import completions, job_of, lending, preemptions, replay

GPUS = 100
EIGHT_GPUS = Cluster.of_servers(1)


def scheme(caps):
    """Return a scheme with a queue, and with or without caps."""
    return ComposedScheme(
        name="capped", summary="for tests", queue="shortest-base", run_time_caps=caps
    )


def caps_of(jobs, rule, now_s):
    """Return the caps by definition, from all jobs as (submitted, run time, GPUs), in seconds."""
    update_s = SAMPLE_S * SAMPLES_PER_UPDATE
    updated_s = (now_s - SAMPLE_S) // update_s * update_s + SAMPLE_S
    if updated_s < SAMPLE_S:
        return [float(GPUS)] * len(rule.classes_h)
    moments = np.arange(SAMPLE_S, updated_s + 1, SAMPLE_S)[-int(rule.window_days * 144) :]
    found = []
    for hours in rule.classes_h:
        held = [
            [
                (run_s >= hours * HOUR_S, gpus)
                for at_s, run_s, gpus in jobs
                if at_s < m < at_s + run_s
            ]
            for m in moments
        ]
        shorter, longer = (
            [sum(gpus for is_longer, gpus in now if is_longer is wanted) for now in held]
            for wanted in (False, True)
        )
        left = float(np.percentile(shorter, rule.percentile, method="higher"))
        left = min(left, GPUS - rule.long_demand * float(np.mean(longer)))
        found.append(GPUS - max(left, rule.short_demand * float(np.mean(shorter))))
    return found


FIELDS = st.tuples(st.integers(0, 3000), st.integers(1, 700), st.integers(1, 60))
RULES = st.builds(
    RunTimeCaps,
    classes_h=st.just((1.0, 4.0)),
    percentile=st.sampled_from([0.0, 40.0, 100.0]),
    long_demand=st.sampled_from([0.0, 1.0, 1.5]),
    short_demand=st.sampled_from([0.0, 1.0]),
    window_days=st.sampled_from([0.25, 1.0]),
)


@given(jobs=st.lists(FIELDS, max_size=12), rule=RULES)
def test_caps_are_those_of_the_definition(jobs, rule):
    """Kept up to date job by job as computed from all jobs that were submitted before.

    No job comes or goes at the moment of a look, in whole minutes: all are odd in seconds.
    """
    jobs = sorted((60 * at + 7, 60 * run + 2, gpus) for at, run, gpus in jobs)
    caps = CapsInForce(rule, gpus=GPUS, now_s=0.0)
    for place, (at_s, run_s, gpus) in enumerate(jobs):
        caps.submitted(at_s, run_s, gpus)
        assert caps.gpus == pytest.approx(caps_of(jobs[:place], rule, at_s))
    end_s = 60 * 3000 + 20 * HOUR_S
    caps.advance(end_s)
    assert caps.gpus == pytest.approx(caps_of(jobs, rule, end_s))


def test_caps_are_nested():
    """A job of 5 hours counts for the caps of 1 and of 4 hours, and has to keep both."""
    caps = CapsInForce(RunTimeCaps(classes_h=(1.0, 4.0)), gpus=10, now_s=0.0)
    assert [caps.class_of(hours * HOUR_S) for hours in (0.5, 1, 3.9, 4, 9)] == [0, 1, 1, 2, 2]
    caps.starts(0, 1, 6)
    assert caps.admits(2, 4)
    assert not caps.admits(2, 5)
    caps.starts(1, 2, 4)
    assert not caps.admits(1, 1)
    assert caps.admits(0, 10)  # short jobs are never held back
    caps.ends(0)
    assert caps.admits(1, 6)
    assert not caps.admits(2, 7)
    caps.ends(1)
    caps.ends(1)  # of who holds none
    assert caps.admits(2, 11)  # nobody is in the way


def test_long_jobs_leave_what_short_ones_need():
    """Of 8 GPUs 2 long jobs of 2 may hold 2, as short ones need 6; without caps both start."""
    day_s = 86_400
    short = [job_of(f"short-{n}", n * 3000.0, 2999.0, 6) for n in range(day_s // 3000)]
    long = [job_of(f"long-{n}", day_s + n, 20 * HOUR_S, 2) for n in range(2)]
    last = job_of("short", day_s + 100, 60.0, 6)
    caps = RunTimeCaps(percentile=50.0, long_demand=0.0, short_demand=0.0)
    free, capped = (
        [run.queued_s for run in replay([*short, *long, last], EIGHT_GPUS, scheme(rule)).runs[-3:]]
        for rule in (None, caps)
    )
    assert free == [0, 0, 20 * HOUR_S - 100]
    assert capped == [0, pytest.approx(20 * HOUR_S - 1), 0]


BESIDE_LOANS = [
    seed
    for seed in range(2000)
    if (kind := kind_of(seed)).cluster == "pools+loans" and kind.policy_kind == "composed"
]
"""Seeds of small clusters beside servers that are lent, and of jobs for them."""


@given(seed=st.sampled_from(BESIDE_LOANS))
def test_the_budget_holds_and_nobody_is_lost(seed):
    """Beside calls for servers on loan, which count as well."""
    no_limits = {"waited_run_times": 0.0, "least_left_h": 0.0, "lost_share": 1.0, "interval_s": 0.0}
    stopping = ComposedScheme(
        name="stopping",
        summary="for tests",
        queue="shortest-base",
        reclaimer="lyra-greedy",
        scaling="knapsack:mckp-core",
        voluntary_preemption=VoluntaryPreemption(budget=0.5, **no_limits),
    )
    drawn = draw(seed)
    jobs = drawn.workload.jobs
    plan = drawn.plan or lending(0)
    assume(all(map(drawn.cluster.holds, jobs)))  # some draws are refused on purpose
    assume(max(plan.on_loan) <= drawn.cluster.inference_servers)
    simulation = replay(jobs, drawn.cluster, stopping, plan=plan, options=drawn.options)
    require_conserved(simulation)
    assert min(completions(simulation)) >= 0
    if not simulation.totals.reclaims:
        assert preemptions(simulation) <= 0.5 * len(jobs)
