"""The space of small reclaim instances, and what the search finds in it."""

from __future__ import annotations

import math
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from lyra_opt.core.errors import FieldError
from lyra_opt.core.problem import find_problem
from lyra_opt.core.solver import find_solver
from lyra_opt.reclaim import Job, ReclaimInstance, Semantics, Server, WorkerGroup
from lyra_opt.reclaim.counterexamples import ReclaimSpace
from lyra_opt.testing import counterexamples
from lyra_opt.testing.counterexamples import find_counterexample
from tests.lyra_opt.reclaim import reference

if TYPE_CHECKING:
    from lyra_opt.reclaim.counterexamples import ReclaimSketch
    from lyra_opt.testing.counterexamples import Counterexample

BOTH = pytest.mark.parametrize("semantics", list(Semantics))


def order(space: ReclaimSpace, sketch: ReclaimSketch) -> tuple[int, ...]:
    return tuple(space.measures(sketch).values())


def found(heuristic: str, against: str | None = None, **options: Any) -> Counterexample:
    search_options = {
        name: options.pop(name) for name in ("min_ratio", "seed", "time_limit_s") if name in options
    }
    search = find_counterexample(
        ReclaimSpace(**options),
        find_solver("reclaim", heuristic),
        None if against is None else find_solver("reclaim", against),
        **search_options,
    )
    assert search.counterexample is not None
    return search.counterexample


class TestSpace:
    """Every sketch is an instance of the size and the limits that were asked for."""

    @BOTH
    def test_plain_instances_are_all_there_are(self, semantics: Semantics) -> None:
        """As many as counted, no two alike, ascending: or a claim of minimality would be false."""
        space = ReclaimSpace(semantics)
        for size in ((2, 1), (2, 3), (3, 1), (3, 2)):
            plain = space.plain_of(size)
            assert len(plain) == len(set(plain)) == space.count_plain(size)
            orders = [order(space, sketch) for sketch in plain]
            assert orders == sorted(orders)
            assert {entry[:2] for entry in orders} == {size}

    @BOTH
    def test_plain_instances_by_other_means(self, semantics: Semantics) -> None:
        """Every instance of the documented form, listed naively, is among them."""
        space = ReclaimSpace(semantics)
        servers, jobs = 2, 2
        naive = set()
        for places in product(product((0, 1), repeat=servers), repeat=jobs):
            for weights in product((1, 2), repeat=jobs):
                for losable in product(range(servers + 1), repeat=jobs):
                    chosen = list(zip(places, weights, losable, strict=True))
                    if all(
                        any(hosts) and slack <= (0 if semantics is Semantics.RIGID else sum(hosts))
                        for hosts, _, slack in chosen
                    ):
                        naive.add(tuple(sorted(chosen)))
        listed = {
            tuple(
                sorted(
                    (tuple(base for base, _ in job.groups), job.weight, job.slack)
                    for job in sketch.jobs
                )
            )
            for sketch in space.plain_of((servers, jobs))
        }
        assert listed == naive

    @BOTH
    def test_drawn_and_varied_instances_are_valid(self, semantics: Semantics) -> None:
        """Of the size asked for, within the largest weight, with a choice to make."""
        space = ReclaimSpace(semantics, max_weight=4)
        rng = np.random.default_rng(0)
        seen = set()
        for size in product((2, 3, 6), (1, 2, 5)):
            for _ in range(40):
                drawn = space.draw(size, rng)
                varied = space.vary(drawn, (size[0] + 1, max(1, size[1] - 1)), rng)
                for sketch, expected in ((drawn, size), (varied, None)):
                    instance = space.instance(sketch, "x")  # validates
                    servers, jobs = len(instance.servers), len(instance.jobs)
                    assert (servers, jobs) == (expected or (size[0] + 1, max(1, size[1] - 1)))
                    on_loan = sum(server.on_loan for server in instance.servers)
                    assert 1 <= instance.reclaim_servers < on_loan
                    assert all(1 <= job.weight <= 4 for job in instance.jobs)
                    assert instance.semantics is semantics
                    seen |= {
                        ("off loan", on_loan < servers),
                        ("GPUs", any(job.gpus_per_worker > 1 for job in instance.jobs)),
                        (
                            "flexible",
                            any(job.base_workers < job.total_workers for job in instance.jobs),
                        ),
                        ("slack", any(job.min_workers < job.base_workers for job in instance.jobs)),
                    }
        expected_features = {"off loan", "GPUs", "flexible"}
        if semantics is Semantics.INTERCHANGEABLE:
            expected_features.add("slack")
        assert {name for name, is_there in seen if is_there} == expected_features

    @BOTH
    def test_reductions_are_valid_and_reach_the_bottom(self, semantics: Semantics) -> None:
        """Followed downwards they end, at two servers and one job of one worker."""
        space = ReclaimSpace(semantics, max_weight=1000)
        rng = np.random.default_rng(1)
        for _ in range(5):
            sketch = space.draw((5, 4), rng)
            while True:
                smaller = [
                    s for s in space.reductions(sketch) if order(space, s) < order(space, sketch)
                ]
                for candidate in smaller:
                    space.instance(candidate, "x")
                if not smaller:
                    break
                sketch = min(smaller, key=lambda s: order(space, s))
            assert order(space, sketch) == (2, 1, 1, 1, 2, 1, 0, 0, 0)

    def test_measures_count_the_instance(self) -> None:
        """By the instance's own records, so that "smallest" means what it says."""
        space = ReclaimSpace("interchangeable")
        rng = np.random.default_rng(2)
        for _ in range(50):
            sketch = space.draw((4, 3), rng)
            instance = space.instance(sketch, "x")
            assert space.measures(sketch) == {
                "servers": len(instance.servers),
                "jobs": len(instance.jobs),
                "workers": sum(job.total_workers for job in instance.jobs),
                "weight": instance.total_weight,
                "gpus": sum(server.gpus for server in instance.servers),
                "reclaim_servers": instance.reclaim_servers,
                "servers_not_on_loan": sum(not server.on_loan for server in instance.servers),
                "flexible_workers": sum(
                    job.total_workers - job.base_workers for job in instance.jobs
                ),
                "slack_workers": sum(job.total_workers - job.min_workers for job in instance.jobs),
            }

    @pytest.mark.parametrize(
        ("options", "part"),
        [
            ({"semantics": "soft"}, 'semantics is "soft"'),
            ({"max_servers": 0}, "max_servers is 0"),
            ({"max_servers": 17}, "max_servers is 17: must be at most 16"),
            ({"max_jobs": 17}, "max_jobs is 17"),
            ({"max_jobs": True}, "max_jobs is true"),
            ({"max_weight": 0}, "max_weight is 0"),
            ({"max_weight": 2**53 - 1}, "max_weight is"),
        ],
    )
    def test_bad_limits(self, options: dict[str, Any], part: str) -> None:
        """Named with value and rule."""
        with pytest.raises(FieldError, match=part):
            ReclaimSpace(**options)


class TestFound:
    """What the search finds is what it says."""

    def test_lyra_greedy_fails_on_four_servers_and_four_jobs_at_most(self) -> None:
        """The promise of the command; the values by the plain checker and by every choice."""
        counterexample = found("lyra-greedy", max_servers=4, max_jobs=4)
        instance = counterexample.instance
        assert len(instance.servers) <= 4
        assert len(instance.jobs) <= 4
        assert counterexample.optimum.objective == reference.optimum(instance)
        assert counterexample.heuristic.objective == reference.objective(
            instance, counterexample.heuristic.solution
        )
        assert counterexample.heuristic.objective > counterexample.optimum.objective

    def test_two_servers_never_fool_lyras_rule(self) -> None:
        """By hand: with N_R = 1 of two servers the costs differ as the weights on one alone do.

        So three servers are the least, whatever the weights; and one job alone does not do.
        """
        measures = found("lyra-greedy", max_servers=3, max_jobs=2).measures
        assert (measures["servers"], measures["jobs"]) == (3, 2)

    @pytest.mark.parametrize(
        ("heuristic", "against", "options"),
        [
            ("lyra-greedy", None, {"min_ratio": 2, "max_servers": 3, "max_jobs": 2}),
            ("scf", "lyra-greedy", {"min_ratio": 2.5, "max_servers": 3, "max_jobs": 2}),
            ("marginal", "cpsat", {"max_servers": 3, "max_jobs": 2}),
            ("random", None, {"seed": 5}),
            (
                "lyra-greedy",
                None,
                {"semantics": "interchangeable", "max_servers": 3, "max_jobs": 2},
            ),
        ],
    )
    def test_ratio_and_order(
        self, heuristic: str, against: str | None, options: dict[str, Any]
    ) -> None:
        """Recomputed with the solvers themselves on the instance; never below the optimum."""
        result = found(heuristic, against, **options)
        worse, better = result.heuristic.objective, result.against.objective
        assert worse is not None
        assert better is not None
        assert worse > better >= reference.optimum(result.instance) == result.optimum.objective
        assert worse >= options.get("min_ratio", 1) * better
        assert result.ratio == (worse / better if better else math.inf)
        for answer in (result.heuristic, result.against):
            assert answer.objective == reference.objective(result.instance, answer.solution)

    def test_nothing_can_be_taken_away(self) -> None:
        """Without any one server or job of the instance Lyra's rule finds the optimum."""
        instance = found("lyra-greedy", max_servers=3, max_jobs=3, max_weight=1).instance
        greedy = find_solver("reclaim", "lyra-greedy")
        for left_out in [*instance.servers, *instance.jobs]:
            smaller = _without(instance, left_out)
            answer = counterexamples.solve_and_check(find_problem("reclaim"), smaller, greedy)
            assert answer.objective == reference.optimum(smaller)

    def test_the_same_seed_gives_the_same_answer(self) -> None:
        """Also where the instance was drawn and not listed; other seeds may differ."""
        options = {"max_servers": 3, "max_jobs": 2, "min_ratio": 4, "max_weight": 4}
        first, second = (found("peeling", seed=1, **options) for _ in range(2))
        assert first.instance == second.instance
        assert first.heuristic.solution == second.heuristic.solution

    def test_minimality_is_claimed_only_where_all_were_tried(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With a limit of 20 plain instances a size, (2, 2) is left out already."""
        greedy = find_solver("reclaim", "lyra-greedy")
        space = ReclaimSpace(max_servers=3, max_jobs=2)
        assert find_counterexample(space, greedy).no_plain_of_smaller_size
        monkeypatch.setattr(counterexamples, "MOST_PLAIN", 20)
        search = find_counterexample(space, greedy)
        assert search.counterexample is not None
        assert not search.no_plain_of_smaller_size

    @pytest.mark.parametrize(("max_servers", "tried"), [(1, 0), (2, None)])
    def test_none(self, max_servers: int, tried: int | None) -> None:
        """There is none with two servers; with one there is nothing to choose."""
        search = find_counterexample(
            ReclaimSpace(max_servers=max_servers, max_jobs=1), find_solver("reclaim", "lyra-greedy")
        )
        assert search.counterexample is None
        assert search.stopped_by is None
        assert search.no_plain_of_smaller_size
        assert tried is None or search.tried == tried


def _without(instance: ReclaimInstance, left_out: Server | Job) -> ReclaimInstance:
    servers = tuple(server for server in instance.servers if server is not left_out)
    ids = {server.id for server in servers}
    jobs = []
    for job in instance.jobs:
        workers = tuple(
            WorkerGroup(server=group.server, base=group.base)
            for group in job.workers
            if group.server in ids
        )
        if job is not left_out and workers:
            jobs.append(Job(id=job.id, workers=workers, weight=job.weight))
    return ReclaimInstance(
        name=instance.name,
        semantics=instance.semantics,
        reclaim_servers=min(instance.reclaim_servers, len(servers)),
        servers=servers,
        jobs=tuple(jobs),
    )
