r"""How much forking must give, and how much of it HadarE reaches.

No table of the paper. On one-GPU nodes and with one-GPU jobs, both makespans are linear programmes
(`lyra_opt.heterogeneous.divisible_makespan`), and both are reached by schedules that may change at
any time: with forking by giving each node its jobs one after another, since copies may overlap;
without by open-shop schedules (Lawler and Labetoulle 1978). So their ratio F/G is what forking
gives at zero cost and in short rounds, whatever the algorithm, and

.. math::
    \frac{TTD(Hadar)}{TTD(HadarE)} = \frac{F}{G}\cdot\frac{TTD(Hadar)/F}{TTD(HadarE)/G}.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from experiments.simulation.carried_out import SimulationError
from instances.heterogeneous.clusters import find_cluster
from instances.heterogeneous.generated_jobs import MIX_SIZES, mix
from lyra_opt.heterogeneous.divisible_makespan import divisible_makespan
from lyra_opt.heterogeneous.instance import HeterogeneousInstance, Objective
from paper_figures.comparison import Table
from paper_figures.hadar.cases import TESTBEDS, DrawnCase, MixCase, gangs_of, hours
from paper_figures.hadar.schemes import GAVEL_MAKESPAN, HADAR, HADARE, NAMES
from paper_figures.report import Answer, Page

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_figures.hadar.cases import Results, Setting

NAME = "hadar-forking"
TITLE = "How much must forking give, and how much of it does HadarE reach?"

SCHEMES = (HADAR, HADARE, GAVEL_MAKESPAN)
DRAWN_FOR_EACH_SEED = 3

TIGHT = 1e-6
"""Relative; how far apart what is reached and what is proved may be."""


NOTHING = 0.005
"""What a gain is rounded to that forking does not give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCase:
    """The least makespans of jobs on a testbed, costs and rounds left out.

    Parameters
    ----------
    testbed
        One of `TESTBEDS`.
    jobs
        Of a mix; None for drawn jobs.
    seed
        Of drawn jobs.
    """

    testbed: str
    jobs: int | None = None
    seed: int = 0

    @property
    def is_known(self) -> bool:
        """Always."""
        return True

    @property
    def cost(self) -> float:
        """How long it takes, relative to others."""
        return 1.0

    @property
    def name(self) -> str:
        """What tables call its jobs."""
        return f"drawn, seed {self.seed}" if self.jobs is None else f"M-{self.jobs}"

    def simulation(self, scheme: str) -> MixCase | DrawnCase:
        """Return the simulation of the same jobs."""
        if self.jobs is None:
            return DrawnCase(scheme=scheme, testbed=self.testbed, seed=self.seed)
        return MixCase(scheme=scheme, testbed=self.testbed, jobs=self.jobs)

    def run(self, setting: Setting) -> tuple[float, float]:  # noqa: ARG002
        """Return the least makespans in seconds, without forking and with it.

        Raises
        ------
        SimulationError
            If what is proved and what is reached differ.
        """
        from formulations.heterogeneous.lp_highs import LpHighs

        cluster = find_cluster(self.testbed)
        workload = (
            DrawnCase(scheme=HADAR, testbed=self.testbed, seed=self.seed).workload()
            if self.jobs is None
            else mix(self.jobs, gpu_types=cluster.gpu_types)
        )
        instance = HeterogeneousInstance(
            name=workload.name,
            objective=Objective.MAKESPAN,
            gpu_types=cluster.problem_types,
            servers=cluster.problem_servers(),
            jobs=gangs_of(workload),
        )
        engine = LpHighs().point_of
        least = []
        for forking in (False, True):
            found = divisible_makespan(instance, engine, forking=forking)
            if not found.most_s <= found.least_s * (1 + TIGHT):
                raise SimulationError(
                    f"{self}: the makespan is proved to be {found.least_s} s at least, and "
                    f"reached within {found.most_s} s"
                )
            least.append(found.most_s)
        return least[0], least[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What forking gives on some jobs.

    Parameters
    ----------
    testbed, jobs
        Where, and which.
    least_s, forked_s
        The least makespans without forking and with it.
    ttd_s
        Simulated, by scheme.
    """

    testbed: str
    jobs: str
    least_s: float
    forked_s: float
    ttd_s: dict[str, float]

    @property
    def must(self) -> float:
        """How many times shorter the best schedule with copies is than the best without."""
        return self.least_s / self.forked_s

    @property
    def observed(self) -> float:
        """How many times shorter HadarE's TTD is than Hadar's."""
        return self.ttd_s[HADAR] / self.ttd_s[HADARE]

    @property
    def hadar_distance(self) -> float:
        """Hadar's TTD over the best without copies."""
        return self.ttd_s[HADAR] / self.least_s

    @property
    def hadare_distance(self) -> float:
        """HadarE's TTD over the best with copies."""
        return self.ttd_s[HADARE] / self.forked_s


def bound_cases(setting: Setting) -> list[BoundCase]:
    """Return the jobs that are looked at."""
    return [
        *(BoundCase(testbed=testbed, jobs=jobs) for testbed in TESTBEDS for jobs in MIX_SIZES),
        *(
            BoundCase(testbed=testbed, seed=seed)
            for testbed in TESTBEDS
            for seed in range(DRAWN_FOR_EACH_SEED * setting.seeds)
        ),
    ]


def cases(setting: Setting) -> list[BoundCase | MixCase | DrawnCase]:
    """Return what the page is made of."""
    bounds = bound_cases(setting)
    return [*bounds, *(bound.simulation(scheme) for bound in bounds for scheme in SCHEMES)]


def page(results: Results) -> Page:
    """Return the page."""
    gains = []
    for bound in bound_cases(results.setting):
        runs = {scheme: results.of(bound.simulation(scheme)) for scheme in SCHEMES}
        if runs[HADAR] is None or runs[HADARE] is None:
            continue
        least_s, forked_s = results.of(bound)
        gains.append(
            Gain(
                testbed=bound.testbed,
                jobs=bound.name,
                least_s=least_s,
                forked_s=forked_s,
                ttd_s={scheme: run.ttd_s for scheme, run in runs.items() if run is not None},
            )
        )
    return make_page(gains)


def make_page(gains: Sequence[Gain]) -> Page:
    """Return the page of what was found."""
    sentences = []
    for testbed, place in TESTBEDS.items():
        for kind, of in _kinds(gains, testbed):
            sentences.append(_sentence(f"{place}, {kind}", of))
    if not sentences:
        sentences.append("Not run: Hadar or HadarE is not there.")
    return Page(
        name=NAME,
        title=TITLE,
        picture="forking",
        found=(Answer(question=TITLE, sentences=tuple(sentences)),),
        data=tuple(
            Table(
                title=f"TTD and least makespans, {place}",
                header=[
                    "jobs",
                    "best without copies (h)",
                    "best with copies (h)",
                    "must give",
                    "Hadar (h)",
                    "HadarE (h)",
                    "HadarE gives",
                    "Hadar / best",
                    "HadarE / best",
                    f"{NAMES[GAVEL_MAKESPAN]} / best",
                ],
                rows=[_row(gain) for gain in gains if gain.testbed == testbed],
            )
            for testbed, place in TESTBEDS.items()
        ),
        series={
            f"{what}, {place}": [
                (int(gain.jobs.removeprefix("M-")), getattr(gain, name))
                for gain in gains
                if gain.testbed == testbed and gain.jobs.startswith("M-")
            ]
            for testbed, place in TESTBEDS.items()
            for what, name in (("must", "must"), ("observed", "observed"))
        },
        remarks=(
            "Jobs of one GPU on five nodes of one GPU, all submitted at once. The best makespans "
            "are linear programmes, each solved and proved; costs and rounds are left out, and "
            "schedules may change at any time. With copies each node does its parts one after "
            "another; without, a job is on one node at a time, and a schedule as long as the "
            "programme exists (Lawler and Labetoulle 1978).",
            "TTD(Hadar) / TTD(HadarE) is exactly: what forking must give, times how far Hadar is "
            "from the best without copies, over how far HadarE is from the best with them. What "
            "exceeds the first factor is no merit of forking.",
            "Mixes and rates of the testbeds are assumed (see Table 3). Drawn jobs are "
            f"{DrawnCase.JOBS} one-GPU jobs of Gavel's generator.",
            "Simulated times have rounds of 360 s, restarts and merges of 10 s, so that no scheme "
            "can quite reach the best.",
        ),
    )


def _kinds(gains: Sequence[Gain], testbed: str) -> list[tuple[str, list[Gain]]]:
    here = [gain for gain in gains if gain.testbed == testbed]
    mixes = [gain for gain in here if gain.jobs.startswith("M-")]
    drawn = [gain for gain in here if gain not in mixes]
    return [(kind, of) for kind, of in (("mixes", mixes), ("drawn jobs", drawn)) if of]


def _sentence(where: str, gains: Sequence[Gain]) -> str:
    must = [gain.must for gain in gains]
    nothing = sum(value < 1 + NOTHING for value in must)
    mean = statistics.geometric_mean
    observed = mean(gain.observed for gain in gains)
    hadar = mean(gain.hadar_distance for gain in gains)
    hadare = mean(gain.hadare_distance for gain in gains)
    return (
        f"{where}: the best schedule with copies is {mean(must):.2f} times shorter than the best "
        f"without ({min(must):.2f} to {max(must):.2f}; no shorter for {nothing} of {len(must)}). "
        f"HadarE's TTD is {observed:.2f} times shorter than Hadar's; of that a factor of "
        f"{hadar:.2f} is Hadar's own distance from the best without copies, which a better "
        f"schedule without forking wins too. HadarE is within {100 * (hadare - 1):.0f} "
        "% of the best with copies."
    )


def _row(gain: Gain) -> list[str]:
    makespan_s = gain.ttd_s.get(GAVEL_MAKESPAN)
    return [
        gain.jobs,
        hours(gain.least_s),
        hours(gain.forked_s),
        f"{gain.must:.2f}",
        hours(gain.ttd_s[HADAR]),
        hours(gain.ttd_s[HADARE]),
        f"{gain.observed:.2f}",
        f"{gain.hadar_distance:.2f}",
        f"{gain.hadare_distance:.2f}",
        "" if makespan_s is None else f"{makespan_s / gain.least_s:.2f}",
    ]
