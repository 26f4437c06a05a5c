"""The checker: the paper's numbers, every rule of a schedule, and what rounding may break."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest

from lyra_opt.allocation import NamedWorkers, Schedule, WorkerAllocation, check
from tests.lyra_opt.allocation.examples import (
    LONG,
    SHORT,
    example,
    example_schedule,
    instance_of,
    job,
    piece,
)


def violations_of(instance, solution):
    """Return what is wrong, in one text, and nothing else may be known then."""
    report = check(instance, solution)
    assert report.violations
    assert report.objective is None
    assert set(report.measures().values()) == {None}
    return "; ".join(report.violations)


def test_names_that_are_missing_or_unknown():
    """A file must name every job of the instance, and no other."""
    instance = example(objective="joint")
    assert check(instance, NamedWorkers({"B": 3, "A": 5})).objective == 100
    assert violations_of(instance, NamedWorkers({"B": 3, "C": 5})) == (
        "job 'C' is not in the instance; job 'A' has no number of workers (a waiting job has 0)"
    )
    assert violations_of(instance, WorkerAllocation((3,))) == (
        "workers must have one number per job (2), not 1"
    )


def put(schedule, position, **changes):
    """Return the schedule with one piece changed."""
    pieces = list(schedule.pieces)
    pieces[position] = replace(pieces[position], **changes)
    return Schedule(tuple(pieces))


def of_pieces(*pieces):
    """Return a schedule of (job, start, end, workers)."""
    return Schedule(tuple(piece(*each) for each in pieces))


GOOD = example_schedule(LONG, 2, 6)  # B on 6 until 20, A on 2 until 20 and on 6 until 63.33

RUNNING = replace(LONG, running=True)

BROKEN = {
    "order_of_two_phase": (
        example(objective="two_phase", gpus=3),
        WorkerAllocation((2, 0)),
        "job 'A' must wait: after the running jobs, jobs start in the order of work / w_max; "
        "job 'B' must be started: after the running jobs, jobs start in the order of work / w_max",
    ),
    "running_job_without_workers": (
        instance_of(8, RUNNING, SHORT, objective="joint"),
        WorkerAllocation((0, 6)),
        "job 'A' has no workers, but it is running",
    ),
    "base_demand_not_held": (
        example(objective="jct_reduction"),
        WorkerAllocation((2, 0)),
        "job 'B' has no workers, but its base demand is granted",
    ),
    "workers_outside_their_range": (
        example(objective="joint"),
        WorkerAllocation((7, 1)),
        "job 'A' has 7 workers, but its range is 2 to 6; "
        "job 'B' has 1 workers, but its range is 2 to 6",
    ),
    "workers_on_too_many_gpus": (
        example(objective="joint", gpus=4),
        WorkerAllocation((6, 6)),
        "GPUs, but gpus is 4",
    ),
    "workers_in_place_of_a_schedule": (example(), WorkerAllocation((2, 2)), "needs a schedule"),
    "schedule_in_place_of_workers": (example(objective="joint"), GOOD, "needs workers"),
    "unknown_job": (example(), put(GOOD, 0, job="C"), "job 'C' is not in the instance; job 'B' is"),
    "job_missing": (example(), Schedule(GOOD.pieces[1:]), "job 'B' is not in the schedule"),
    "no_piece": (example(), Schedule(()), "job 'A' is not in the schedule; job 'B' is not in"),
    "too_few_workers": (example(), put(GOOD, 1, workers=1.5), "job 'A' has 1.5 workers from 0 s o"),
    "too_many_workers": (example(), put(GOOD, 2, workers=6.5), "job 'A' has 6.5 workers from 20 s"),
    "gap": (example(), put(GOOD, 2, start_s=21, end_s=21 + 260 / 6), "job 'A' has no workers from"),
    "two_pieces_at_once": (example(), put(GOOD, 2, start_s=19.0), "job 'A' has two pieces at once"),
    "work_left": (example(), put(GOOD, 2, end_s=60.0), "job 'A' does 280 worker-seconds of wor"),
    "work_beyond_due": (example(), put(GOOD, 0, end_s=21.0), "job 'B' does 126 worker-seconds of"),
    "too_many_gpus": (example(gpus=7), GOOD, "more than the 7 GPUs are held from 0 s on (20 GPU-s"),
    "before_release": (
        replace(example(), jobs=(replace(LONG, release_s=1), SHORT)),
        GOOD,
        "job 'A' starts at 0 s, before its release at 1.0 s",
    ),
    "running_job_starts_late": (
        replace(example(gpus=20), jobs=(RUNNING, SHORT)),
        Schedule((GOOD.pieces[0], piece("A", 5, 55, 6))),
        "job 'A' is running, but its first piece starts at 5 s",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_rule_is_named(case):
    """One line with job, number and rule."""
    instance, solution, expected = BROKEN[case]
    assert expected in violations_of(instance, solution)


def test_scaling_loss_slows_extra_workers_only():
    """With a loss of a half, 2 + 4 workers do the work of 4; fractions of workers count."""
    instance = instance_of(6, replace(SHORT, scaling_loss=0.5))
    for end_s, workers in ((30, 6), (60, 2), (48, 3), (120 / 2.25, 2.5)):
        schedule = of_pieces(("B", 0, end_s, workers))
        assert check(instance, schedule).objective == pytest.approx(end_s)
    assert "worker-seconds" in violations_of(instance, of_pieces(("B", 0, 20, 6)))


@pytest.mark.parametrize("relative", [-4e-10, 4e-10])
def test_rounding_breaks_no_rule_and_more_does(relative):
    """Times and workers off by less than 1e-9 pass, by a thousand times as much they do not."""

    def shifted(relative):
        more, less = 1 + relative, 1 - relative / 2
        return of_pieces(
            *((p.job, p.start_s * more, p.end_s, p.workers * less) for p in GOOD.pieces)
        )

    report = check(example(), shifted(relative))
    assert report.violations == ()
    assert report.objective == pytest.approx(125 / 3, rel=1e-9)
    assert check(example(), shifted(1000 * relative)).violations


def test_overlap_within_rounding_does_no_work_twice():
    """Many pieces that overlap a little cannot make a job end early."""
    ends = [0.99 * number for number in range(1001)]
    pieces = [("0", max(0.0, start_s - 5e-7), end_s, 1) for start_s, end_s in pairwise(ends)]
    assert "must do 1000" in violations_of(of_one_worker((1000, 0.0)), of_pieces(*pieces))


FAR_S = 1e12
"""A time near which floats are 1.2e-4 s apart."""


def of_one_worker(*jobs):
    """Return jobs of (work, release) with one worker each, on one GPU."""
    return instance_of(
        1,
        *(job(f"{n}", 1, 1, work, release_s=release_s) for n, (work, release_s) in enumerate(jobs)),
    )


@pytest.mark.parametrize("apart", [0, 1])
def test_no_schedule_gains_by_the_rounding_of_its_ends(apart):
    """A job whose end is rounded down misses work, and delays whoever waits for it."""
    instance = of_one_worker((0.3333, 0.0), (0.3333, FAR_S), *[(0.3333, FAR_S)] * apart)
    pieces, start_s = [("0", 0.0, 0.3333, 1)], FAR_S
    for place in range(1, 2 + apart):
        end_s = start_s + 0.3333
        end_s -= math.ulp(end_s) * (end_s - start_s > 0.3333)
        pieces.append((str(place), start_s, end_s, 1))
        start_s = end_s
    report = check(instance, of_pieces(*pieces))
    assert report.objective == pytest.approx(0.3333 * (2 + 2 * apart) / (2 + apart), rel=1e-12)


def test_a_wait_for_a_release_forgives_no_schedule_anything():
    """Two jobs at once for 100 s are refused, however late the next job is released."""
    instance = of_one_worker((100.0, 0.0), (100.0, 0.0), (1.0, FAR_S))
    pieces = ("0", 0.0, 100.0, 1), ("1", 0.0, 100.0, 1), ("2", FAR_S, FAR_S + 1, 1)
    assert "more than the 1 GPUs" in violations_of(instance, of_pieces(*pieces))
