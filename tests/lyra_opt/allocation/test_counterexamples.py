"""The space of small allocation instances, and what the search finds in it."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lyra_opt.allocation import AllocationInstance, ElasticJob, Objective
from lyra_opt.allocation.counterexamples import AllocationSpace
from lyra_opt.allocation.problem import PROBLEM
from lyra_opt.core.errors import FieldError
from lyra_opt.core.solver import find_solver
from lyra_opt.core.solving import solve_and_check
from lyra_opt.testing.counterexamples import CounterexampleSearch, find_counterexample

if TYPE_CHECKING:
    from fractions import Fraction

    from lyra_opt.allocation.counterexamples import AllocationSketch

ALL = pytest.mark.parametrize("objective", list(Objective))
SIZES = st.tuples(st.integers(2, 5), st.integers(1, 7))


def order(space: AllocationSpace, sketch: AllocationSketch) -> tuple[int, ...]:
    return tuple(space.measures(sketch).values())


def search(
    heuristic: str,
    against: str | None = None,
    *,
    min_ratio: Fraction | int = 1,
    seed: int = 0,
    **options: Any,
) -> CounterexampleSearch:
    return find_counterexample(
        AllocationSpace(**options),
        find_solver("allocation", heuristic),
        None if against is None else find_solver("allocation", against),
        min_ratio=min_ratio,
        seed=seed,
    )


@st.composite
def spaces(draw: st.DrawFn) -> AllocationSpace:
    """Any objective, with and without releases."""
    return AllocationSpace(
        draw(st.sampled_from(Objective)),
        max_work=draw(st.sampled_from((1, 3, 24, 1_000_000))),
        max_release=draw(st.sampled_from((0, 8))),
    )


@st.composite
def drawn(draw: st.DrawFn) -> tuple[AllocationSpace, AllocationSketch, tuple[int, int]]:
    """A space, one of its instances, drawn or varied, and its size."""
    space, size = draw(spaces()), draw(SIZES)
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    sketch = space.draw(size, rng)
    for _ in range(draw(st.integers(0, 3))):
        size = draw(SIZES)
        sketch = space.vary(sketch, size, rng)
    return space, sketch, size


class TestSpace:
    """Every sketch is an instance of the size and the limits that were asked for."""

    @ALL
    def test_plain_instances_are_all_there_are(self, objective: Objective) -> None:
        """As many as counted, no two alike, ascending: or a claim of minimality would be false."""
        space = AllocationSpace(objective)
        for size in ((2, 1), (2, 2), (2, 3), (3, 1), (3, 2), (4, 1)):
            plain = list(space.plain_of(size))
            assert len(plain) == len(set(plain)) == space.count_plain(size)
            orders = [order(space, sketch) for sketch in plain]
            assert orders == sorted(orders)
            assert {entry[:2] for entry in orders} == {size}

    @ALL
    def test_plain_instances_by_other_means(self, objective: Objective) -> None:
        """Every instance of the documented form, listed naively, is among them."""
        space = AllocationSpace(objective, max_work=2)
        gpus = 2
        reduces = objective is Objective.JCT_REDUCTION
        jobs = [
            (least, most, work)
            for least, most, work in product(range(1, 9), range(1, 9), (1, 2))
            if least <= min(gpus, most) and most <= gpus + (least if reduces else 0)
        ]
        naive = {tuple(sorted(pair)) for pair in product(jobs, repeat=2)}
        listed = {
            tuple(sorted((job.min_workers, job.max_workers, job.work) for job in sketch.jobs))
            for sketch in space.plain_of((2, gpus))
        }
        assert listed == naive
        assert space.plain.split(", ")[2] == "work 1 to 2"

    @given(drawn())
    def test_drawn_and_varied_instances(
        self, drawn: tuple[AllocationSpace, AllocationSketch, tuple[int, int]]
    ) -> None:
        """Valid, of the size asked for, within the limits, without what plays no part."""
        space, sketch, size = drawn
        instance = space.instance(sketch, "x")  # validates
        objective = instance.objective
        assert (len(instance.jobs), instance.gpus) == size
        assert PROBLEM.parse_instance(PROBLEM.instance_document(instance)) == instance
        held = 0
        for job in instance.jobs:
            assert job.min_gpus <= size[1]
            least = job.min_workers if objective is Objective.JCT_REDUCTION else 0
            assert (job.max_workers - least) * job.gpus_per_worker <= size[1]
            assert 1 <= job.work_worker_s <= space._max_work
            assert job.release_s <= (8 if space._has_releases else 0)
            assert job.scaling_loss == 0 or job.max_workers > job.min_workers
            held += job.min_gpus if job.running else 0
        assert held <= size[1]
        if objective is Objective.JCT_REDUCTION:
            assert not held

    @ALL
    def test_draws_have_every_feature(self, objective: Objective) -> None:
        """Or the search would miss what comes from them."""
        space = AllocationSpace(objective)
        rng = np.random.default_rng(0)
        jobs = [
            job for _ in range(100) for job in space.instance(space.draw((3, 6), rng), "x").jobs
        ]
        is_scheduled = objective is Objective.MEAN_JCT
        assert any(job.release_s for job in jobs) is is_scheduled
        assert any(job.running for job in jobs) is (objective is not Objective.JCT_REDUCTION)
        assert any(job.gpus_per_worker > 1 for job in jobs)
        assert any(job.scaling_loss for job in jobs)
        assert max(job.work_worker_s for job in jobs) > 3

    def test_the_same_seed_draws_the_same(self) -> None:
        """Draws depend on the generator alone."""
        space = AllocationSpace()

        def several() -> list[AllocationSketch]:
            rng = np.random.default_rng(5)
            first = [space.draw((3, 4), rng) for _ in range(20)]
            return first + [space.vary(sketch, (2, 5), rng) for sketch in first]

        assert several() == several()

    @given(drawn())
    def test_reductions_are_valid_and_smaller(
        self, drawn: tuple[AllocationSpace, AllocationSketch, tuple[int, int]]
    ) -> None:
        """Strictly, by the measures, and no two alike."""
        space, sketch, _ = drawn
        reductions = list(space.reductions(sketch))
        assert len(reductions) == len(set(reductions))
        for smaller in reductions:
            instance = space.instance(smaller, "x")  # validates
            assert len(instance.jobs) >= 2
            assert order(space, smaller) < order(space, sketch)

    @given(drawn())
    @settings(max_examples=20)
    def test_reductions_reach_the_bottom(
        self, drawn: tuple[AllocationSpace, AllocationSketch, tuple[int, int]]
    ) -> None:
        """Followed downwards they end at two jobs of one worker and one worker-second."""
        space, sketch, _ = drawn
        while True:
            smaller = list(space.reductions(sketch))
            if not smaller:
                break
            sketch = min(smaller, key=lambda candidate: order(space, candidate))
        assert order(space, sketch) == (2, 1, 2, 2, 2, 0, 0, 2, 0)

    @given(drawn())
    def test_measures_count_the_instance(
        self, drawn: tuple[AllocationSpace, AllocationSketch, tuple[int, int]]
    ) -> None:
        """By the instance's own records, so that "smallest" means what it says."""
        space, sketch, _ = drawn
        instance = space.instance(sketch, "x")
        jobs = instance.jobs
        measures = space.measures(sketch)
        assert measures == {
            "jobs": len(jobs),
            "gpus": instance.gpus,
            "workers": sum(job.max_workers for job in jobs),
            "base_workers": sum(job.min_workers for job in jobs),
            "work_worker_s": sum(job.work_worker_s for job in jobs),
            "release_s": sum(job.release_s for job in jobs),
            "running_jobs": sum(job.running for job in jobs),
            "usable_gpus": sum(job.max_gpus for job in jobs),
            "scaling_loss_percent": round(sum(100 * job.scaling_loss for job in jobs)),
        }
        assert tuple(measures)[:2] == tuple(space.size_names)

    @pytest.mark.parametrize(
        ("options", "part"),
        [
            ({"objective": "makespan"}, 'objective is "makespan"'),
            ({"max_jobs": 0}, "max_jobs is 0"),
            ({"max_jobs": 17}, "max_jobs is 17: must be at most 16"),
            ({"max_jobs": True}, "max_jobs is true"),
            ({"max_gpus": 0}, "max_gpus is 0"),
            ({"max_gpus": 65}, "max_gpus is 65: must be at most 64"),
            ({"max_gpus": 2.0}, "max_gpus is 2.0"),
            ({"max_work": 0}, "max_work is 0"),
            ({"max_work": 1_000_001}, "max_work is 1000001"),
            ({"max_release": -1}, "max_release is -1"),
            ({"max_release": 1_000_001}, "max_release is 1000001"),
        ],
    )
    def test_bad_limits(self, options: dict[str, Any], part: str) -> None:
        """Named with value and rule."""
        with pytest.raises(FieldError, match=part):
            AllocationSpace(**options)


class TestFound:
    """What the search finds is what it says."""

    def test_lyra_starts_all_where_one_after_the_other_is_better(self) -> None:
        """By hand: two jobs of 1 worker-second end at 1 side by side, at 0.5 and 1 in turn.

        With one GPU all jobs hold one worker, and the shortest goes first, which is optimal.
        """
        result = search("lyra", max_jobs=2, max_gpus=2, max_work=2, max_release=0)
        found = result.counterexample
        assert found is not None
        assert result.no_plain_of_smaller_size
        assert found.instance.gpus == 2
        assert [(job.min_workers, job.max_workers) for job in found.instance.jobs] == [(1, 2)] * 2
        assert found.heuristic.objective == pytest.approx(1)
        assert found.optimum.objective == pytest.approx(0.75)
        assert found.against is found.optimum
        assert found.optimum.solver == "exact"

    def test_a_release_that_nobody_foresees(self) -> None:
        """By hand: on one GPU a policy starts the long job, which the optimum keeps waiting."""
        found = search("srw", max_jobs=2, max_gpus=1, max_work=4, max_release=1).counterexample
        assert found is not None
        jobs = sorted(found.instance.jobs, key=lambda job: job.release_s)
        assert [(job.work_worker_s, job.release_s) for job in jobs] == [(4, 0), (1, 1)]
        assert found.heuristic.objective == pytest.approx((4 + 4) / 2)
        assert found.optimum.objective == pytest.approx((6 + 1) / 2)

    @pytest.mark.parametrize(
        ("heuristic", "against", "options"),
        [
            ("lyra", "srw", {"min_ratio": 1.1, "max_jobs": 2, "max_gpus": 3}),
            ("srw", "lyra", {"max_jobs": 2, "max_gpus": 2}),
            ("gandiva", "equal-share", {"max_jobs": 2, "seed": 3}),
            ("mckp-greedy", None, {"objective": "joint", "max_gpus": 3}),
            (
                "mckp-greedy",
                "brute-force",
                {"objective": "jct_reduction", "max_jobs": 2, "max_work": 2},
            ),
        ],
    )
    def test_values_and_ratio(
        self, heuristic: str, against: str | None, options: dict[str, Any]
    ) -> None:
        """Recomputed with the solvers themselves on the instance; never beyond the optimum."""
        found = search(heuristic, against, **options).counterexample
        assert found is not None
        is_reduction = options.get("objective") == "jct_reduction"
        worse, better = found.heuristic.objective, found.against.objective
        optimum = found.optimum.objective
        assert worse is not None
        assert better is not None
        assert optimum is not None
        if is_reduction:
            assert worse < better <= optimum * (1 + 1e-9)
            assert found.ratio == pytest.approx(better / worse)
        else:
            assert worse > better >= optimum * (1 - 1e-9)
            assert found.ratio == pytest.approx(worse / better)
        assert found.ratio >= options.get("min_ratio", 1) * (1 - 1e-9)
        assert found.optimum.gap <= 1e-6
        for answer in (found.heuristic, found.against):
            report = PROBLEM.check(found.instance, answer.solution)
            assert report.objective == answer.objective
            solver = find_solver("allocation", answer.solver)
            again = solve_and_check(PROBLEM, found.instance, solver, seed=answer.seed)
            assert again.objective == answer.objective

    def test_nothing_can_be_taken_away(self) -> None:
        """With one GPU or one worker less, ``lyra`` is as good as ``sjf`` on what was found."""
        found = search("lyra", "sjf", max_jobs=2, max_gpus=3, max_release=0).counterexample
        assert found is not None
        space = AllocationSpace()

        def value(instance: AllocationInstance, solver: str) -> float:
            answer = solve_and_check(PROBLEM, instance, find_solver("allocation", solver))
            assert answer.objective is not None
            return answer.objective

        assert value(found.instance, "lyra") > value(found.instance, "sjf")
        jobs = found.instance.jobs
        for position, job in enumerate(jobs):
            if job.max_workers == job.min_workers:
                continue
            narrower = _job_like(job, max_workers=job.max_workers - 1)
            smaller = AllocationInstance(
                name="x",
                objective=Objective(space.variant),
                gpus=found.instance.gpus,
                jobs=(*jobs[:position], narrower, *jobs[position + 1 :]),
            )
            assert value(smaller, "lyra") <= value(smaller, "sjf") * (1 + 1e-9)

    def test_the_same_seed_gives_the_same_answer(self) -> None:
        """Also where the instance was drawn and not listed."""
        options = {"max_jobs": 2, "max_gpus": 2, "seed": 4}
        first, second = (search("gandiva", "srw", **options).counterexample for _ in range(2))
        assert first is not None
        assert second is not None
        assert first.instance == second.instance
        assert first.heuristic.solution == second.heuristic.solution

    def test_none(self) -> None:
        """On one GPU two jobs that are there from the start go by work, whoever orders them."""
        result = search("lyra", "srw", max_jobs=2, max_gpus=1, max_release=0)
        assert result.counterexample is None
        assert result.no_plain_of_smaller_size
        assert result.tried_plain == 6
        assert not result.skipped

    def test_one_job_is_no_instance(self) -> None:
        """It shares with nobody."""
        assert search("lyra", max_jobs=1).tried == 0


def _job_like(job: ElasticJob, *, max_workers: int) -> ElasticJob:
    return ElasticJob(
        id=job.id,
        min_workers=job.min_workers,
        max_workers=max_workers,
        work_worker_s=job.work_worker_s,
        gpus_per_worker=job.gpus_per_worker,
        scaling_loss=job.scaling_loss,
    )
