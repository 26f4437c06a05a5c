"""How far from the best decision of the moment Dally's is, and those of others.

No table of the paper, which has no optimisation problem. The one held against is ours: computing
GPUs, weighted by how much the network has hurt a gang and how long it waits
(`lyra_opt.network.instance.Objective.EPOCH`).
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from experiments.simulation.carried_out import SimulationError
from instances.network.epoch import epoch_instance
from lyra_opt.network.checker import check
from lyra_opt.network.communication import ClosedForm
from lyra_opt.network.topology import Topology
from lyra_opt.problem import find_problem
from lyra_opt.result import Limits, Status, same_value
from lyra_opt.simulation.scheme import Options
from lyra_opt.solver import find_solver
from lyra_opt.solving import solve_and_check
from paper_figures.comparison import MISSING, Table
from paper_figures.dally.captured import captured_decisions
from paper_figures.dally.cases import LINKS, Situation
from paper_figures.dally.schemes import DALLY, NAMES, OURS, SCHEMES
from paper_figures.report import Answer, Page

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.network.instance import NetworkInstance
    from paper_figures.dally.captured import Captured
    from paper_figures.dally.cases import Results, Setting

NAME = "dally-epoch-gap"
TITLE = "How far from the best decision of the moment are Dally's?"

EXACT = ("cpsat-patterns", "mathopt-highs-patterns")
"""Two solvers that have nothing in common; both have to say the same."""
LONGEST_PROOF_S = 10.0

NETWORKS = ("shipped", "congested-2")
RACKS, MACHINES_PER_RACK, WAITING = 8, 8, 40
"""Drawn decisions: 64 machines of 8 GPUs, and gangs that wait."""
DRAWN_FOR_EACH_SEED = 5
EVERY = 200
"""Of the decisions of a simulation, so manieth is kept."""

CALLED = {**NAMES, OURS: "packing by prices (ours)"}

DRAWN, CAPTURED = "drawn", "simulated"
KINDS = {
    DRAWN: f"drawn decisions ({WAITING} gangs wait beside {RACKS * MACHINES_PER_RACK} machines)",
    CAPTURED: "decisions of simulated runs of Dally (batch)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What came of a decision.

    Parameters
    ----------
    keeps_timers
        Whether gangs are held back by their timers.
    optimum
        Proved by both solvers; None if not in time.
    values
        Of the rules that can answer it, by name.
    """

    keeps_timers: bool
    optimum: float | None
    values: dict[str, float]

    def gap(self, rule: str) -> float | None:
        """Return the share of the optimum that a rule misses; None if not known.

        Of an optimum of 0 nothing is missed.
        """
        if self.optimum is None or rule not in self.values:
            return None
        return 1 - self.values[rule] / self.optimum if self.optimum else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCase:
    """Decisions, each with its timers and without.

    Parameters
    ----------
    kind
        One of `KINDS`.
    network
        Name of the links.
    seed
        Of the draws, or of the simulated jobs.
    """

    kind: str
    network: str
    seed: int

    @property
    def is_known(self) -> bool:
        """Always."""
        return True

    @property
    def cost(self) -> float:
        """How long it takes, relative to others."""
        return 10.0 if self.kind == CAPTURED else 1.0

    def run(self, setting: Setting) -> list[Found]:
        """Let all rules decide, and prove what is best.

        Raises
        ------
        SimulationError
            If a solver is wrong, the two that prove do not agree, a rule is above the optimum, or
            Dally decides otherwise on a decision by itself than it did in the simulation.
        """
        if self.kind == DRAWN:
            return _with_timers_and_without(self._drawn())
        found = []
        for captured in self._captured(setting):
            both = _with_timers_and_without(captured.instance)
            value = check(captured.instance, captured.solution).objective
            if value is None or not same_value(value, both[0].values[DALLY]):
                raise SimulationError(
                    f"{self}, {captured.instance.name}: Dally's decision was worth {value}, and is "
                    f"{both[0].values[DALLY]} by itself"
                )
            found += both
        return found

    def _drawn(self) -> NetworkInstance:
        topology = Topology.uniform(racks=RACKS, machines_per_rack=MACHINES_PER_RACK)
        communication = ClosedForm(links=LINKS[self.network])
        return epoch_instance(topology, jobs=WAITING, seed=self.seed, communication=communication)

    def _captured(self, setting: Setting) -> list[Captured]:
        situation = Situation(network=self.network)
        return captured_decisions(
            situation.workload(setting, self.seed),
            situation.cluster(setting),
            Options(seed=self.seed),
            every=EVERY,
        )


def _with_timers_and_without(instance: NetworkInstance) -> list[Found]:
    return [
        decided(instance, keeps_timers=True),
        decided(without_timers(instance), keeps_timers=False),
    ]


def without_timers(instance: NetworkInstance) -> NetworkInstance:
    """Return a decision in which no timer holds anybody back."""
    return replace(
        instance,
        name=f"{instance.name}, timers 0",
        jobs=tuple(replace(job, rack_timer_s=0.0, network_timer_s=0.0) for job in instance.jobs),
    )


def decided(instance: NetworkInstance, *, keeps_timers: bool) -> Found:
    """Return what rules and exact solvers make of a decision; `SimulationError` as above."""
    problem = find_problem("network")
    proofs = []
    for name in EXACT:
        answer = solve_and_check(
            problem, instance, find_solver("network", name), limits=Limits(time_s=LONGEST_PROOF_S)
        )
        if answer.status is Status.ERROR:
            raise SimulationError(f"{instance.name}, solver {name}: {answer.message}")
        proofs.append(answer)
    optimum = None
    if all(answer.status is Status.OPTIMAL for answer in proofs):
        first, second = (answer.objective for answer in proofs)
        if first is None or second is None or not same_value(first, second):
            raise SimulationError(
                f"{instance.name}: optimum {first} by {EXACT[0]}, {second} by {EXACT[1]}"
            )
        optimum = float(first)
    values = {}
    for name in SCHEMES:
        answer = solve_and_check(problem, instance, find_solver("network", name))
        if answer.status is Status.ERROR:
            raise SimulationError(f"{instance.name}, rule {name}: {answer.message}")
        if answer.objective is not None:
            values[name] = float(answer.objective)
            if (
                optimum is not None
                and values[name] > optimum
                and not same_value(values[name], optimum)
            ):
                raise SimulationError(
                    f"{instance.name}: {name} is worth {values[name]}, the optimum {optimum}"
                )
    return Found(keeps_timers=keeps_timers, optimum=optimum, values=values)


def cases(setting: Setting) -> list[EpochCase]:
    """Return what the page is made of."""
    drawn = [
        EpochCase(kind=DRAWN, network=network, seed=seed)
        for network in NETWORKS
        for seed in range(DRAWN_FOR_EACH_SEED * setting.seeds)
    ]
    captured = [
        EpochCase(kind=CAPTURED, network=network, seed=seed)
        for network in NETWORKS
        for seed in range(setting.seeds)
    ]
    return [*drawn, *captured]


def page(results: Results) -> Page:
    """Return the page."""
    found: dict[tuple[str, bool], list[Found]] = {
        (kind, keeps): [] for kind in KINDS for keeps in (True, False)
    }
    for case in cases(results.setting):
        for each in results.of(case) or ():
            found[case.kind, each.keeps_timers].append(each)
    return make_page(found)


def make_page(found: dict[tuple[str, bool], list[Found]]) -> Page:
    """Return the page of what was found, by kind and by whether timers hold."""
    return Page(
        name=NAME,
        title=TITLE,
        picture="epoch_gap",
        found=(Answer(question=TITLE, sentences=tuple(_sentences(found))),),
        data=tuple(_table(kind, keeps, of) for (kind, keeps), of in found.items() if of),
        series={
            f"{series_name(kind, keeps)}: {rule}": [
                (place, 100 * gap) for place, gap in enumerate(_gaps(of, rule))
            ]
            for (kind, keeps), of in found.items()
            for rule in SCHEMES
        },
        remarks=(
            "What is maximised, ours: the sum over gangs that start of (1 - Nw_sens + 1e-6 for "
            "each second waited) times GPUs times efficiency at the tier, no gang placed against "
            "its timers. Dally has no such aim; its order puts those first who weigh most here, "
            "one by one.",
            f"Optima are proved by {EXACT[0]} and {EXACT[1]}, which have nothing in common and "
            f"agree in every case; what was not proved within {LONGEST_PROOF_S:g} s is left out "
            "and counted.",
            f"Drawn decisions are the family epoch on the links {' and '.join(NETWORKS)}; "
            f"simulated ones are every {EVERY}th of the batch on the same links, with the timers "
            "that Dally's tuner had just then. Rules that know no timers answer only where none "
            "holds.",
            "Packing by prices is what priced-placement makes of a standalone decision: it packs "
            "for the same aim as the optimum here, and never does worse than Dally. In simulations "
            "it has another aim, and decides who had better wait.",
            "The best decision of a moment is not the best for a run: what is refused now may be "
            "placed nearer soon. Rules with another aim, such as the shortest first, are measured "
            "by an aim that is not theirs.",
        ),
    )


def series_name(kind: str, keeps_timers: bool) -> str:
    """Return the panel of the plot."""
    return f"{kind}, {'timers as they are' if keeps_timers else 'timers 0'}"


def _gaps(found: Iterable[Found], rule: str) -> list[float]:
    return [gap for each in found if (gap := each.gap(rule)) is not None]


def _sentences(found: dict[tuple[str, bool], list[Found]]) -> list[str]:
    sentences = []
    for (kind, keeps), of in found.items():
        gaps = _gaps(of, DALLY)
        if not gaps:
            continue
        held = "with the timers of the moment" if keeps else "with timers 0"
        sentence = (
            f"On {len(gaps)} {KINDS[kind]}, {held}, Dally's are worth {_percent(gaps)} less than "
            f"the proved optimum in the mean (at most {100 * max(gaps):.0f} %; "
            f"{sum(gap < 1e-9 for gap in gaps)} are optimal)"
        )
        ours = _gaps(of, OURS)
        if ours:
            sentence += f", those of {CALLED[OURS]} {_percent(ours)}"
        if not keeps:
            best = _best(of)
            if best is not None:
                sentence += (
                    f"; the nearest of the others is {CALLED[best]}, {_percent(_gaps(of, best))}"
                )
        sentences.append(f"{sentence}.")
    sentences += _price_of_timers(found)
    unproved = sum(each.optimum is None for of in found.values() for each in of)
    if unproved:
        sentences.append(f"Not proved in time, and left out: {unproved}.")
    return sentences or ["Not run."]


def _price_of_timers(found: dict[tuple[str, bool], list[Found]]) -> list[str]:
    """Return what timers forbid even the best decision, where they forbid anything."""
    sentences = []
    for kind in KINDS:
        pairs = [
            (held.optimum, free.optimum)
            for held, free in zip(found[kind, True], found[kind, False], strict=True)
            if held.optimum is not None and free.optimum
        ]
        if pairs:
            lost = [1 - held / free for held, free in pairs]
            sentences.append(
                f"What the timers forbid costs the best decision of the moment {_percent(lost)} "
                f"({kind}): that is patience, and only a run can say whether it pays."
            )
    return sentences


def _best(found: Sequence[Found]) -> str | None:
    """Return the rule nearest to the optimum, Dally and ours left out."""
    means = {
        rule: statistics.fmean(gaps)
        for rule in SCHEMES
        if rule not in (DALLY, OURS) and (gaps := _gaps(found, rule))
    }
    return min(means, key=lambda rule: means[rule]) if means else None


def _percent(gaps: Sequence[float]) -> str:
    return f"{100 * statistics.fmean(gaps):.1f} %"


def _table(kind: str, keeps_timers: bool, found: Sequence[Found]) -> Table:
    rows = []
    for rule in SCHEMES:
        gaps = _gaps(found, rule)
        if not gaps:
            rows.append([CALLED[rule], "0", *[MISSING] * 4])
            continue
        shown = (statistics.fmean(gaps), statistics.median(gaps), max(gaps))
        rows.append(
            [
                CALLED[rule],
                str(len(gaps)),
                *(f"{100 * gap:.1f}" for gap in shown),
                str(sum(gap < 1e-9 for gap in gaps)),
            ]
        )
    return Table(
        title=f"Less than the proved optimum (%), {series_name(kind, keeps_timers)}",
        header=["rule", "decisions", "mean", "median", "worst", "optimal"],
        rows=rows,
    )
