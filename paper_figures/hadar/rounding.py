"""What is lost between the shares that Gavel promises and those that its rounds give.

No table of the paper. Jobs never end here, so that shares are computed once and rounds have all the
time to come near them; what is short then is lost for good.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from instances.heterogeneous.clusters import cluster_of
from instances.heterogeneous.generated_jobs import GANGS, gavel_like
from lyra_opt.heterogeneous.gavel_rounds import GavelRounds
from lyra_opt.heterogeneous.instance import Objective
from lyra_opt.heterogeneous.policy import NEVER, ActiveJob, RoundState
from paper_figures.comparison import MISSING, Table
from paper_figures.hadar.cases import TYPES, gangs_of
from paper_figures.report import Answer, Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from paper_figures.hadar.cases import Results, Setting

NAME = "hadar-rounding"
TITLE = "How much of the shares that Gavel promises do its rounds give?"

GPUS_OF_TYPE = 24
LOADS = (18, 36, 72, 144)
"""Jobs on 72 GPUs."""
KINDS = {
    "mixed gangs, servers of 8": (8, False),
    "mixed gangs, servers of 4": (4, False),
    "one-GPU jobs alone": (4, True),
}
"""GPUs of a server, and whether all jobs have one GPU."""
ROUNDS = 400
ROUND_S = 360.0
SEEDS_FOR_EACH = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """What a job was promised and got.

    Parameters
    ----------
    gang
        Its GPUs.
    promised, had
        Share of the time, over all types.
    promised_steps_per_s, steps_per_s
        By the programme, and where the rounds placed it.
    equal_steps_per_s
        On equal shares, by which Gavel's max-min fairness normalises.
    """

    gang: int
    promised: float
    had: float
    promised_steps_per_s: float
    steps_per_s: float
    equal_steps_per_s: float

    @property
    def time_kept(self) -> float:
        """Share of the promised time that it had; what is beyond the promise does not count."""
        return min(1.0, self.had / self.promised)

    @property
    def steps_kept(self) -> float:
        """Share of the promised steps that it did; what is beyond the promise does not count."""
        return min(1.0, self.steps_per_s / self.promised_steps_per_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundingCase:
    """Gavel's max-min shares of jobs that never end, and what its rounds give.

    Parameters
    ----------
    jobs
        On 72 GPUs.
    seed
        Of the jobs.
    kind
        One of `KINDS`.
    """

    jobs: int
    seed: int
    kind: str

    @property
    def is_known(self) -> bool:
        """Always."""
        return True

    @property
    def cost(self) -> float:
        """How long it takes, relative to others."""
        return self.jobs / 30

    def run(self, setting: Setting) -> list[Received]:  # noqa: ARG002
        """Return what each job was promised and got."""
        gpus_per_server, one_gpu = KINDS[self.kind]
        cluster = cluster_of(dict.fromkeys(TYPES, GPUS_OF_TYPE), gpus_per_server=gpus_per_server)
        jobs = gangs_of(
            gavel_like(
                jobs=self.jobs,
                seed=self.seed,
                gpu_types=cluster.gpu_types,
                largest_gang=1 if one_gpu else GANGS[-1],
            )
        )
        state = RoundState(
            gpu_types=cluster.problem_types,
            servers=cluster.problem_servers(),
            now_s=0.0,
            round_s=ROUND_S,
        )
        policy = GavelRounds(Objective.MAX_MIN_SHARE)
        policy.prepare(state, np.random.default_rng(0))
        state.jobs = [
            ActiveJob(job=job, order=order, steps_left=job.steps, submitted_s=0.0)
            for order, job in enumerate(jobs)
        ]
        rounds = dict.fromkeys((job.id for job in jobs), 0)
        steps = dict.fromkeys(rounds, 0.0)
        for number in range(ROUNDS):
            state.now_s = number * ROUND_S
            decision = policy.decide(state)
            state.is_changed = False
            for active in state.jobs:
                active.placements = decision.get(active.job.id, ())
                active.waiting_since_s = NEVER if active.placements else state.now_s
                for placement in active.placements:
                    rounds[active.job.id] += 1
                    steps[active.job.id] += active.job.rate_of(placement)
        gpus = cluster.gpus_of_type
        found = []
        for job in jobs:
            shares = policy.shares[job.id]
            found.append(
                Received(
                    gang=job.gang,
                    promised=sum(shares.values()),
                    had=rounds[job.id] / ROUNDS,
                    promised_steps_per_s=sum(
                        job.throughput.get(name, 0.0) * share for name, share in shares.items()
                    ),
                    steps_per_s=steps[job.id] / ROUNDS,
                    equal_steps_per_s=sum(
                        job.throughput.get(name, 0.0) * count / cluster.gpus
                        for name, count in gpus.items()
                        if job.gang <= count
                    ),
                )
            )
        return found


def cases(setting: Setting) -> list[RoundingCase]:
    """Return what the page is made of."""
    return [
        RoundingCase(jobs=jobs, seed=seed, kind=kind)
        for jobs in LOADS
        for seed in range(SEEDS_FOR_EACH * setting.seeds)
        for kind in KINDS
    ]


def page(results: Results) -> Page:
    """Return the page."""
    return make_page({case: results.of(case) for case in cases(results.setting)})


def make_page(found: dict[RoundingCase, list[Received]]) -> Page:
    """Return the page of what was found."""
    drawn = len({case.seed for case in found})
    return Page(
        name=NAME,
        title=TITLE,
        picture="rounding",
        found=(Answer(question=TITLE, sentences=tuple(_sentences(found))),),
        data=(_by_gang(found), _by_load(found)),
        series={
            kind: [(load, 100 * _mean(map(_worst_kept, _of(found, kind, load)))) for load in LOADS]
            for kind in KINDS
        },
        remarks=(
            f"{', '.join(map(str, LOADS[:-1]))} and {LOADS[-1]} jobs of Gavel's generator on "
            f"{GPUS_OF_TYPE} GPUs of each of {len(TYPES)} types, {drawn} draws each; they never "
            "end, shares are those of max-min fairness, computed once, and "
            f"{ROUNDS} rounds follow.",
            "Kept is what a job gets of what it was promised, time on whatever type; what it gets "
            "beyond the promise, where others leave GPUs, does not count. Means are over jobs.",
            "The programme knows one rate a type: that of a gang on one server, or on several "
            "where no server holds it. Told the rate of one server in any case, it promises an LM "
            "of 8 on servers of 4 ten times what two servers give (Gavel's own table). A gang may "
            "still find the free GPUs of a round on more servers than that, or, on K80, on several "
            "where its speed was not measured and it does not run: wide gangs lose that.",
            "Why one-GPU jobs lose steps where there are fewer of them than GPUs: the mechanism "
            "fills types in turn, V100 first, also with jobs that were promised none of it. They "
            "then miss the type that they were promised: Recommendation, which is twice as fast on "
            "P100, runs on V100. With enough jobs the types are full of those who were promised "
            "them, and one-GPU jobs keep all.",
            "The worst-off job's normalised throughput is what the programme makes as great as "
            "possible. Half a round that each job begins with, and the last rounds of "
            f"{ROUNDS}, blur shares by about one round in {ROUNDS}.",
        ),
    )


def _sentences(found: dict[RoundingCase, list[Received]]) -> list[str]:
    sentences = []
    for kind in KINDS:
        of_kind = {case: jobs for case, jobs in found.items() if case.kind == kind}
        parts: list[str] = []
        for gang in GANGS:
            of = [job for jobs in of_kind.values() for job in jobs if job.gang == gang]
            if of:
                share = _percent(_mean(job.steps_kept for job in of))
                parts.append(share if len(parts) else f"{share} of the steps")
                parts[-1] += f" of gangs of {gang}" if gang > 1 else " of one-GPU jobs"
        kept = [_worst_kept(jobs) for jobs in of_kind.values()]
        sentences.append(
            f"{kind[0].upper()}{kind[1:]}: rounds keep {', '.join(parts)}. "
            "The worst-off job gets "
            f"{_percent(_mean(kept))} of what the worst-off is promised (least "
            f"{_percent(min(kept))}; means over draws and loads)."
        )
    return sentences


def _worst_kept(jobs: Sequence[Received]) -> float:
    """Return the least normalised throughput that jobs get, over the least that is promised."""
    promised = min(job.gang * job.promised_steps_per_s / job.equal_steps_per_s for job in jobs)
    had = min(job.gang * job.steps_per_s / job.equal_steps_per_s for job in jobs)
    return had / promised


def _by_gang(found: dict[RoundingCase, list[Received]]) -> Table:
    rows = []
    for kind in KINDS:
        for gang in GANGS:
            of = [
                job
                for case, jobs in found.items()
                if case.kind == kind
                for job in jobs
                if job.gang == gang
            ]
            if of:
                never = sum(not job.had for job in of)
                rows.append([f"{kind}, gangs of {gang}", str(len(of)), *_ratios(of), str(never)])
    return Table(title="By gang", header=["", "jobs", *RATIOS, "never run"], rows=rows)


def _by_load(found: dict[RoundingCase, list[Received]]) -> Table:
    rows = []
    for kind in KINDS:
        for load in LOADS:
            of_load = _of(found, kind, load)
            of = [job for jobs in of_load for job in jobs]
            if of:
                kept = _percent(_mean(map(_worst_kept, of_load)))
                rows.append([f"{kind}, {load} jobs", *_ratios(of), kept])
    return Table(title="By number of jobs", header=["", *RATIOS, "worst-off job keeps"], rows=rows)


def _of(found: dict[RoundingCase, list[Received]], kind: str, load: int) -> list[list[Received]]:
    return [jobs for case, jobs in found.items() if (case.kind, case.jobs) == (kind, load)]


RATIOS = ("time kept", "least", "steps kept", "least")


def _ratios(jobs: Sequence[Received]) -> list[str]:
    times = [job.time_kept for job in jobs]
    steps = [job.steps_kept for job in jobs]
    return [_percent(value) for value in (_mean(times), min(times), _mean(steps), min(steps))]


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return statistics.fmean(known) if known else float("nan")


def _percent(value: float) -> str:
    return MISSING if math.isnan(value) else f"{100 * value:.1f} %"
