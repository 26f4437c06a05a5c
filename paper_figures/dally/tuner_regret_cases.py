"""What the page on the auto-tuner's regret is made of: timers tuned, and schedules searched."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.simulation.carried_out import SimulationError
from experiments.tuning.clairvoyant_search import search_plan
from experiments.tuning.search import best_of, tune
from experiments.tuning.situation import Situation, evaluator
from experiments.tuning.timer_space import BASELINES, TimerSpace
from instances.network.generated_jobs import dally_batch, dally_poisson
from lyra_opt.network.delay_scheduling import DelayScheduling
from lyra_opt.network.timers import AutoTuner
from lyra_opt.network.topology import Topology
from lyra_opt.simulation.clairvoyant_bounds import mean_jct_bound_s
from lyra_opt.simulation.scheme import find_scheme, scheme_names
from lyra_opt.simulation.tenure import Leases
from paper_figures.dally.cases import cluster_with, run_rule
from paper_figures.dally.schemes import DALLY, OURS, SRTF

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.tuning.situation import Candidate
    from lyra_opt.network.class_timers import ClassTimers
    from lyra_opt.network.policy import PlacementState
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload
    from paper_figures.dally.cases import Setting

TOPOLOGY = Topology.uniform(racks=2, machines_per_rack=4, gpus_per_machine=8)
JOBS = 80
NETWORKS = ("shipped", "congested-2")
BUSY_JOBS_PER_DAY = 60.0
"""64 GPUs could do the work of 59 jobs a day, on average and if the network cost nothing."""

DRAWS_FOR_EACH_SEED = 3
FIRST_FRESH_SEED = 1000
TRIALS = 24
CHANGES = 12
"""Of the clairvoyant search beside its plain plans."""

SPACE = TimerSpace.of(TOPOLOGY)
OTHERS = (SRTF, OURS)
BEST_FIXED = "best fixed timers"
TOLERANCE = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Tuned:
    """What timers came to on the draws of a situation.

    Parameters
    ----------
    timers
        The best fixed ones.
    auto_leases
        Mean and largest timer that the auto-tuner held gangs to, by the name of the choice that
        stands for it; none where it was never asked.
    jct_s, fresh_jct_s
        Mean JCT of each draw that was tuned on, and of each that was not, by rule.
    """

    timers: ClassTimers
    auto_leases: Mapping[str, tuple[float, float]]
    jct_s: Mapping[str, tuple[float, ...]]
    fresh_jct_s: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Clairvoyant:
    """What one who knows the jobs of a draw can have.

    Parameters
    ----------
    bound_s
        Proved: no schedule has a smaller mean JCT.
    timers_s
        Found with timers of their own for all jobs, in Dally's order.
    found_s
        Found with any order, and no worse than that.
    """

    bound_s: float
    timers_s: float
    found_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Links and a load.

    Parameters
    ----------
    network
        Name of the links.
    jobs_per_day
        None submits all jobs at once.
    """

    network: str
    jobs_per_day: float | None

    @property
    def in_words(self) -> str:
        """What tables call it."""
        jobs = "batch" if self.jobs_per_day is None else f"{self.jobs_per_day:g} jobs a day"
        return f"{jobs}, {self.network}"

    @property
    def cluster(self) -> Cluster:
        """Where jobs run."""
        return cluster_with(self.network, TOPOLOGY)

    def draw(self, seed: int) -> Workload:
        """Return its jobs."""
        if self.jobs_per_day is None:
            return dally_batch(seed=seed, jobs=JOBS)
        return dally_poisson(seed=seed, jobs=JOBS, jobs_per_day=self.jobs_per_day)

    def situation(self, seeds: Sequence[int]) -> Situation:
        """Return what timers are tuned, or tried, on."""
        return Situation(cluster=self.cluster, draws=tuple(self.draw(seed) for seed in seeds))


PLACES = tuple(
    Place(network=network, jobs_per_day=rate)
    for rate in (None, BUSY_JOBS_PER_DAY)
    for network in NETWORKS
)


def draws(setting: Setting) -> range:
    """Return the seeds that timers are tuned on."""
    return range(DRAWS_FOR_EACH_SEED * setting.seeds)


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningCase:
    """Timers tuned in a place, and other rules beside them."""

    place: Place

    @property
    def is_known(self) -> bool:
        """Always."""
        return True

    @property
    def cost(self) -> float:
        """How long it takes, relative to others."""
        return 3.0

    def run(self, setting: Setting) -> Tuned:
        """Tune them, and simulate every rule."""
        seeds = draws(setting)
        known = self.place.situation(seeds)
        fresh = self.place.situation([FIRST_FRESH_SEED + seed for seed in seeds])
        with evaluator(known) as evaluate, evaluator(fresh) as evaluate_fresh:
            trials = tune(evaluate, SPACE, trials=TRIALS, seed=0)
            timers = best_of(trials).timers
            candidates: dict[str, Candidate] = {
                trial.baseline: trial.timers for trial in trials if trial.baseline
            }
            candidates[BEST_FIXED] = timers
            candidates |= {n: find_scheme(n) for n in (DALLY, *OTHERS) if n in scheme_names()}
            return Tuned(
                timers=timers,
                auto_leases=_auto_leases(known),
                jct_s={name: evaluate(each) for name, each in candidates.items()},
                fresh_jct_s={name: evaluate_fresh(each) for name, each in candidates.items()},
            )


class _WatchedTuner(AutoTuner):
    """Dally's auto-tuner, which writes down what it says of gangs that are offered GPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[tuple[int, float, float]] = []

    def timers_s(self, state: PlacementState, job: int) -> tuple[float, float]:
        rack_s, network_s = super().timers_s(state, job)
        gang = int(state.waiting.gang[job])
        self.said.append((gang, rack_s / state.lease_s, network_s / state.lease_s))
        return rack_s, network_s


def _auto_leases(situation: Situation) -> dict[str, tuple[float, float]]:
    said: list[tuple[int, float, float]] = []
    for workload in situation.draws:
        tuner = _WatchedTuner()
        run_rule(DelayScheduling(DALLY, tuner), workload, situation.cluster, situation.options)
        said += tuner.said
    found = {}
    for choice in SPACE.choices:
        smaller = max(
            (gang for gang in SPACE.largest_gangs if gang < choice.largest_gang), default=1
        )
        leases = [
            rack if choice.is_rack else network
            for gang, rack, network in said
            if smaller < gang <= choice.largest_gang
        ]
        if leases:
            found[choice.name] = statistics.fmean(leases), max(leases)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class ClairvoyantCase:
    """What can be had of the jobs of a draw by one who knows them."""

    place: Place
    seed: int

    @property
    def is_known(self) -> bool:
        """Always."""
        return True

    @property
    def cost(self) -> float:
        """How long it takes, relative to others."""
        return 1.5

    def run(self, setting: Setting) -> Clairvoyant:  # noqa: ARG002
        """Bound it, and search for it."""
        workload, cluster = self.place.draw(self.seed), self.place.cluster
        found = [
            search_plan(
                workload,
                cluster,
                np.random.default_rng(self.seed),
                leases=Leases(),
                changes=CHANGES,
                keeps_order=keeps_order,
            ).mean_jct_s
            for keeps_order in (True, False)
        ]
        return Clairvoyant(
            bound_s=mean_jct_bound_s(workload, cluster), timers_s=found[0], found_s=min(found)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Regret:
    """What was found in a place; times are the mean JCT of each draw.

    Parameters
    ----------
    place
        Where.
    tuned
        Rules and timers.
    bound_s, timers_s, found_s
        As of `Clairvoyant`, the latter two no worse than any rule that was simulated and may.
    """

    place: Place
    tuned: Tuned
    bound_s: tuple[float, ...]
    timers_s: tuple[float, ...]
    found_s: tuple[float, ...]

    @property
    def best_fixed_s(self) -> tuple[float, ...]:
        """Of the best fixed timers, on the draws that they were tuned on."""
        return self.tuned.jct_s[BEST_FIXED]


def combined(place: Place, tuned: Tuned, clairvoyant: Sequence[Clairvoyant]) -> Regret:
    """Return what was found, schedules that others found taken in.

    Raises
    ------
    SimulationError
        If a schedule beats the bound that is proved.
    """
    in_dallys_order = [DALLY, BEST_FIXED, *BASELINES]
    timers_s, found_s = [], []
    for number, each in enumerate(clairvoyant):
        by_rule = {name: jct_s[number] for name, jct_s in tuned.jct_s.items()}
        timers_s.append(min([each.timers_s, *(by_rule[name] for name in in_dallys_order)]))
        found_s.append(min([each.found_s, timers_s[-1], *by_rule.values()]))
        if found_s[-1] < each.bound_s * (1 - TOLERANCE):
            raise SimulationError(
                f"{place.in_words}, draw {number}: a schedule has a mean JCT of {found_s[-1]} s, "
                f"but {each.bound_s} s is proved to be the least"
            )
    return Regret(
        place=place,
        tuned=tuned,
        bound_s=tuple(each.bound_s for each in clairvoyant),
        timers_s=tuple(timers_s),
        found_s=tuple(found_s),
    )


def cases(setting: Setting) -> list[TuningCase | ClairvoyantCase]:
    """Return what the page is made of."""
    return [
        *(TuningCase(place=place) for place in PLACES),
        *(ClairvoyantCase(place=place, seed=seed) for place in PLACES for seed in draws(setting)),
    ]
