"""Functions for the tables and figures on Dally (Sharma et al., arXiv 2401.16492).

These functions compute tables and notes from replays, such as a comparison of the schemes of all
papers on one cluster, and the benefit of locality compared with that of the queue order.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lyra_opt.core.numbers import HOUR_S
from lyra_opt.instances.network.jobs import BATCH
from lyra_opt.instances.traces import TRACES_VARIABLE
from lyra_opt.network.links import LINK_SETS, Tier
from lyra_opt.paper_figures.comparison import MISSING, Computed, FurtherTable
from lyra_opt.paper_figures.dally_reductions import (
    CONSOLIDATION,
    DALLY,
    OURS,
    bounds_s,
    held_against,
    in_one_situation,
    over_seeds,
)
from lyra_opt.paper_figures.document import by_name
from lyra_opt.paper_figures.results import Outcome, Part, short
from lyra_opt.paper_figures.setting import PaperRun
from lyra_opt.simulation.communication import ClosedForm
from lyra_opt.simulation.scheme import PlacementScheme, RoundScheme, find_scheme

CONGESTED, FREE = SITUATIONS = ("batch-congested-2", "batch-free")
CALLED = {CONGESTED: "Congested links (congested-2)", FREE: "Communication costs nothing"}
CONSOLIDATED, MANUAL, NO_WAIT, BEST_FIT, SRTF = (
    "consolidated",
    "manual",
    "no-wait",
    "best-fit",
    "srtf-network",
)

TIERS, TWO_SPEEDS, NOTHING = "tiers", "one machine or several", "nothing"

NETWORK_DATA_IN_WORDS = {
    TIERS: "uses the tiers of the network",
    TWO_SPEEDS: "uses the speeds on one machine and on several",
    NOTHING: "ignores the network",
}

# With a single GPU type, these round-based schemes ignore how fast each job runs.
SPEED_BLIND_ROUNDS = frozenset({"gavel-fifo", "tiresias", "yarn-cs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A scheme with its simulations in one scenario, for a ranking of schemes.

    Parameters
    ----------
    scheme
        The name of the scheme.
    outcomes
        The replays, one per seed.
    """

    scheme: str
    outcomes: Sequence[Outcome]

    def mean(self, measure: str | Callable[[Outcome], float]) -> float:
        """Return the mean over seeds of a quantity measured in the scheme's simulations."""
        if isinstance(measure, str):
            return statistics.fmean(outcome.figures[measure] for outcome in self.outcomes)
        return statistics.fmean(map(measure, self.outcomes))

    @property
    def jct_h(self) -> float:
        """The scheme's mean JCT over seeds, in hours."""
        return self.mean("jct_mean_s") / HOUR_S


def looks_at(scheme: str) -> str:
    """Return the part of the network data that a scheme uses to place a gang."""
    found = find_scheme(scheme)
    if isinstance(found, PlacementScheme):
        return TIERS
    knows_speeds = isinstance(found, RoundScheme) and scheme not in SPEED_BLIND_ROUNDS
    return TWO_SPEEDS if knows_speeds else NOTHING


def standings(part: Part, situation: str, schemes: Sequence[str]) -> list[Standing]:
    """Return all schemes that were run in a scenario, sorted by mean JCT."""
    found = [
        Standing(scheme=scheme, outcomes=outcomes)
        for scheme in schemes
        if (outcomes := over_seeds(part, scheme, situation))
    ]
    return sorted(found, key=lambda standing: (standing.jct_h, standing.scheme))


def schemes_of_all_papers(
    part: Part, *, orders: Mapping[str, str], left_out: Mapping[str, str]
) -> Computed:
    """Return tables that compare the schemes of all papers on one cluster.

    Parameters
    ----------
    orders
        The queue order of each scheme, with a star if it needs to know how long jobs run.
    left_out
        The reason for each scheme that cannot run these gangs, or equals another scheme.
    """
    by_situation = {name: standings(part, name, list(orders)) for name in SITUATIONS}
    ideal_h = _ideal_h(part)
    return Computed(
        findings=_findings(by_situation),
        tables=[
            *(
                _table(part, situation, found, orders)
                for situation, found in by_situation.items()
                if found
            ),
            FurtherTable(
                title="Schemes that were left out",
                header=["scheme", "reason"],
                rows=[list(entry) for entry in left_out.items()],
                words=2,
            ),
        ],
        series={
            f"{CALLED[situation]}: {standing.scheme}": [
                (0, min(ideal_h, standing.jct_h)),
                (1, standing.jct_h - ideal_h - _queue_h(standing)),
                (2, _queue_h(standing)),
            ]
            for situation, found in by_situation.items()
            for standing in found
        },
    )


def _queue_h(standing: Standing) -> float:
    return standing.mean("queue_mean_s") / HOUR_S


def _ideal_h(part: Part) -> float:
    """Return the mean run time of a job, in hours, if communication costs nothing."""
    draws = part.setting.draws(part.publication)
    run = PaperRun(scenario=CONGESTED, scheme=DALLY)
    return statistics.fmean(
        job.duration_s / HOUR_S
        for draw in draws
        for job in part.setting.task(run, draw).setup().workload.jobs
    )


def _table(
    part: Part, situation: str, found: Sequence[Standing], orders: Mapping[str, str]
) -> FurtherTable:
    rows = []
    for place, standing in enumerate(found):
        hours = [
            short(standing.mean(measure) / HOUR_S)
            for measure in ("jct_mean_s", "jct_p95_s", "queue_mean_s", "queue_p95_s", "makespan_s")
        ]
        rows.append(
            [
                f"{place + 1}. {standing.scheme}",
                find_scheme(standing.scheme).paper,
                looks_at(standing.scheme),
                orders[standing.scheme],
                *hours,
                _percent(standing.mean("communication_share")),
                " / ".join(_percent(_share(standing, tier)) for tier in Tier),
                f"{standing.mean('preemptions_per_submission'):.1f}",
                _percent(standing.mean("gpu_usage")),
            ]
        )
    bounds = [bounds_s(part, situation, measure) for measure in ("jct_mean_s", "makespan_s")]
    if all(bounds):
        jct, makespan = (short(statistics.fmean(of_seeds) / HOUR_S) for of_seeds in bounds)
        blank = [MISSING] * 3
        rows.append(["bound for any scheme", "", "", "", jct, *blank, makespan, *blank, MISSING])
    header = ["scheme", "paper", "looks at", "queue order"]
    header += ["JCT mean (h)", "p95", "queue mean (h)", "p95", "makespan (h)"]
    header += ["communication (%)", "GPU time: machine / rack / network (%)"]
    header += ["preemptions per job", "GPU usage (%)"]
    return FurtherTable(
        title=f"{CALLED[situation]}, by mean JCT", header=header, rows=rows, words=4
    )


def _share(standing: Standing, tier: Tier) -> float:
    """Return the share of GPU time that gangs spend at a tier."""

    def share(outcome: Outcome) -> float:
        by_tier: Mapping[str, float] = outcome.figures["gpu_s_by_tier"]
        return by_tier[tier.label] / sum(by_tier.values())

    return standing.mean(share)


def _percent(share: float) -> str:
    return f"{100 * share:.0f}"


def _findings(by_situation: dict[str, list[Standing]]) -> list[str]:
    """Return conclusions on locality and queue order, one sentence each."""
    congested, free = (by_situation[situation] for situation in SITUATIONS)
    if not congested:
        return ["Not run: there are no schemes."]
    sentences = [_places(congested)]
    sentences += _best_blind(congested)
    sentences += _locality(congested)
    sentences += _order(congested)
    if free:
        sentences += _control(congested, free)
    return sentences


def _places(found: Sequence[Standing]) -> str:
    """Return the best scheme, and the ranks of Dally and of this project's scheme, in words."""
    of = {standing.scheme: place for place, standing in enumerate(found)}
    parts = [
        f"{scheme} is number {of[scheme] + 1} with {found[of[scheme]].jct_h:.1f} h"
        for scheme in (OURS, DALLY)
        if of.get(scheme)
    ]
    return (
        f"On congested links (congested-2) {found[0].scheme} has the shortest mean JCT of "
        f"{len(found)} schemes, {found[0].jct_h:.1f} h"
        + "".join(f"; {part}" for part in parts)
        + f"; the last is {found[-1].scheme}, {found[-1].jct_h:.1f} h."
    )


def _best_blind(found: Sequence[Standing]) -> list[str]:
    """Return how schemes with less network data compare with Dally and this project's scheme."""
    jct_h = {standing.scheme: standing.jct_h for standing in found}
    sentences = []
    for knows, called in (
        (NOTHING, "that ignores the network"),
        (TWO_SPEEDS, "that knows only the speeds on one machine and on several machines"),
    ):
        best = next((each for each in found if looks_at(each.scheme) == knows), None)
        if best is None:
            continue
        against = " and ".join(
            f"{_more_or_less(best.jct_h, jct_h[scheme])} that of {scheme}"
            for scheme in (DALLY, OURS)
            if scheme in jct_h
        )
        sentences.append(
            f"The best scheme {called} is {best.scheme}: its mean JCT, {best.jct_h:.1f} h, is "
            f"{against}."
        )
    return sentences


def _locality(found: Sequence[Standing]) -> list[str]:
    """Return, in words, the benefit of waiting for near GPUs with Dally's queue order."""
    of = {standing.scheme: standing for standing in found}
    if NO_WAIT not in of:
        return []
    patient = [of[scheme] for scheme in (DALLY, MANUAL, CONSOLIDATED) if scheme in of]
    if not patient:
        return []
    best = min(patient, key=lambda standing: standing.jct_h)
    before, after = (100 * standing.mean("communication_share") for standing in (of[NO_WAIT], best))
    return [
        "The benefit of locality, with Dally's queue order: under the best scheme that waits for "
        f"near GPUs ({best.scheme}) the mean JCT is "
        f"{_more_or_less(best.jct_h, of[NO_WAIT].jct_h)} that of {NO_WAIT}. Communication takes "
        f"{after:.0f} % of the time on GPUs instead of {before:.0f} %."
    ]


def _order(found: Sequence[Standing]) -> list[str]:
    """Return, in words, the benefit of the queue order if schemes take the nearest GPUs at once."""
    of = {standing.scheme: standing for standing in found}
    if not {NO_WAIT, BEST_FIT, SRTF} <= of.keys():
        return []
    return [
        "The benefit of the queue order, if all schemes take the nearest GPUs at once: with first "
        f"come, first served ({BEST_FIT}) the mean JCT is "
        f"{_more_or_less(of[BEST_FIT].jct_h, of[NO_WAIT].jct_h)} with the gang first that the "
        f"network hurts most ({NO_WAIT}). With the shortest job first ({SRTF}) it is "
        f"{_more_or_less(of[SRTF].jct_h, of[NO_WAIT].jct_h)} with {NO_WAIT}."
    ]


def _control(congested: Sequence[Standing], free: Sequence[Standing]) -> list[str]:
    """Return, in words, how schemes differ if communication costs nothing."""
    before = {standing.scheme: standing.jct_h for standing in congested}
    both = [(before[each.scheme], each.jct_h) for each in free if each.scheme in before]
    sentences = [
        "If communication costs nothing, schemes differ only in their queue order. Mean JCTs then "
        f"range from {free[0].jct_h:.1f} h ({free[0].scheme}) to {free[-1].jct_h:.1f} h "
        f"({free[-1].scheme})."
    ]
    place = next((n for n, each in enumerate(free) if each.scheme == DALLY), None)
    if place is not None and DALLY in before:
        sentences[0] = (
            f"{sentences[0][:-1]}; {DALLY} is number {place + 1} with {free[place].jct_h:.1f} h."
        )
    here = {standing.scheme: place for place, standing in enumerate(congested)}
    there = {standing.scheme: place for place, standing in enumerate(free)}
    falls = {scheme: here[scheme] - place for scheme, place in there.items() if scheme in here}
    furthest = max(falls, key=lambda scheme: falls[scheme], default=None)
    if furthest is not None and falls[furthest] > 0:
        sentences.append(
            f"Congestion costs {furthest} the most ranks, which "
            f"{NETWORK_DATA_IN_WORDS[looks_at(furthest)]}: it is number {there[furthest] + 1} if "
            f"communication costs nothing and number {here[furthest] + 1} on congested links."
        )
    if len(both) > 2:
        ranks = [np.argsort(np.argsort(values)) for values in zip(*both, strict=True)]
        correlation = float(np.corrcoef(ranks[0], ranks[1])[0, 1])
        sentences.append(
            "The ranks on congested links and without communication costs "
            f"{'hardly differ' if correlation > 0.8 else 'differ'}; Spearman's rank correlation "
            f"is {correlation:.2f}."
        )
    return sentences


def _more_or_less(value: float, reference: float) -> str:
    """Return how a value compares with a reference, such as ``5 % longer than``."""
    percent = 100 * (value / reference - 1)
    if abs(percent) < 1:
        return "as long as"
    return f"{abs(percent):.0f} % {'longer' if percent > 0 else 'shorter'} than"


GANG = 16


def over_links(part: Part, *, claims: Sequence[str], situations: Sequence[str]) -> Computed:
    """Return Dally's reductions relative to other schemes by set of links, with a links table."""
    found = held_against(part, claims=claims, situations=situations, only_series=True)
    return replace(found, tables=[_links()])


def _links() -> FurtherTable:
    """Return a table of the links and the efficiency of a gang at each tier."""
    weights = BATCH.models
    rows = []
    for name, links in LINK_SETS.items():
        communication = ClosedForm(links=links)
        row = [name]
        for tier in (Tier.RACK, Tier.NETWORK):
            link = links.at(tier)
            of_models = {model: communication.efficiency(model, GANG, tier, 2) for model in weights}
            mean = statistics.fmean(of_models.values(), weights=list(weights.values()))
            row += [
                f"{link.bandwidth_gb_per_s:g}",
                f"{1e6 * link.latency_s:g}",
                f"{100 * mean:.3g}",
                f"{100 * min(of_models.values()):.2g} to {100 * max(of_models.values()):.2g}",
            ]
        rows.append(row)
    columns = ("GB/s", "µs", "gang computes (%)", "by model")
    return FurtherTable(
        title=f"Links, and the share of time in which a gang of {GANG} GPUs computes on two "
        "machines of a rack or across two racks, mean over jobs",
        header=["", *(f"{tier}: {column}" for tier in ("rack", "network") for column in columns)],
        rows=rows,
    )


def why_jct_differs(part: Part, *, situation: str, words: str) -> list[str]:
    """Return why computed JCTs differ from the paper's, with numbers from the runs.

    Parameters
    ----------
    situation
        The scenario.
    words
        The sentences; ``{situation}`` stands for the scenario, ``{waits}`` for the waits and the
        communication of each scheme, and ``{single}`` for the percentage of jobs with one GPU.
    """
    paper = part.results.paper
    parts = []
    for scheme in (DALLY, *CONSOLIDATION):
        found = over_seeds(part, scheme, situation)
        if not found:
            return []
        wait_h, communication_h = (
            statistics.fmean(outcome.figures[measure] for outcome in found) / HOUR_S
            for measure in ("queue_mean_s", "communication_s")
        )
        parts.append(f"{paper.called[scheme]} {wait_h:.0f} h and {communication_h:.0f} GPU h")
    single = sum(count for gang, count in BATCH.gangs.items() if gang == 1) / BATCH.jobs
    called = paper.scenarios[situation].called
    return [words.format(situation=called, waits=", ".join(parts), single=100 * single)]


def missing_traces(part: Part, *, situations: Sequence[str]) -> list[str]:
    """Return a note on the scenarios that were not run because their traces are missing."""
    missing = {name: part.setting.missing_traces(name) for name in situations}
    names = [
        part.results.paper.scenarios[name].called.partition(",")[0]
        for name, files in missing.items()
        if files
    ]
    files = [file for each in missing.values() for file in each]
    if not files:
        return []
    return [
        f"Not run: {' and '.join(names)}, because {' and '.join(files)} were not found, neither "
        f"in the current folder nor in the folder that {TRACES_VARIABLE} names."
    ]


FUNCTIONS: Mapping[str, Callable[..., Computed | str | list[str]]] = by_name(
    held_against,
    in_one_situation,
    schemes_of_all_papers,
    over_links,
    why_jct_differs,
    missing_traces,
)
