"""How much less Dally needs than others: a claim of the abstract, held against what was run."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from paper_figures.comparison import MISSING, Entry, Source, Table
from paper_figures.dally.cases import bounds_of
from paper_figures.dally.schemes import CONSOLIDATION, DALLY, NAMES, OURS, SCHEMES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_figures.dally.cases import AnySituation, Results


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Up to so much less of something.

    Parameters
    ----------
    measure
        Attribute of the metrics.
    called, unit
        What tables call it, and what it is shown in.
    unit_size
        How much of the measure that unit is.
    percent
        As the abstract prints it.
    """

    measure: str
    called: str
    unit: str
    unit_size: float
    percent: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """How much less one scheme needs than another in a situation.

    Parameters
    ----------
    situation, against
        Where, and than whom.
    percent
        From the geometric mean of ratios over seeds; below 0 it needs more.
    spread
        The least and the greatest over seeds, of several.
    """

    situation: AnySituation
    against: str
    percent: float
    spread: tuple[float, float] | None

    @property
    def in_words(self) -> str:
        """Where and against whom, in words."""
        return f"against {NAMES[self.against]}, {self.situation.in_words}"


def reduction(
    results: Results, claim: Claim, situation: AnySituation, scheme: str, against: str
) -> Reduction | None:
    """Return how much less a scheme needs than another; None where either was not run."""
    ratios = [
        _ratio(getattr(before, claim.measure), getattr(after, claim.measure))
        for before, after in zip(
            results.over_seeds(against, situation),
            results.over_seeds(scheme, situation),
            strict=False,
        )
    ]
    if not ratios:
        return None
    percents = [100 * (1 - ratio) for ratio in ratios]
    return Reduction(
        situation=situation,
        against=against,
        percent=100 * (1 - _geometric_mean(ratios)),
        spread=(min(percents), max(percents)) if len(percents) > 1 else None,
    )


def reductions(
    results: Results, claim: Claim, situations: Sequence[AnySituation], against: Sequence[str]
) -> list[Reduction]:
    """Return Dally's in each situation, against each of some schemes."""
    found = [
        reduction(results, claim, situation, DALLY, scheme)
        for situation in situations
        for scheme in against
    ]
    return [each for each in found if each is not None]


def entry_of(claim: Claim, found: Sequence[Reduction]) -> Entry:
    """Return the claim beside the largest reduction that was found."""
    best = max(found, key=lambda each: each.percent, default=None)
    return Entry.published_reduction(
        "largest against consolidation-based methods",
        f"{claim.called} less by (%)",
        claim.percent,
        None if best is None else best.percent,
        spread=None if best is None else best.spread,
        source=Source.ABSTRACT,
    )


def findings(results: Results, claim: Claim, situations: Sequence[AnySituation]) -> list[str]:
    """Return what the runs say of a claim, a sentence each."""
    against = reductions(results, claim, situations, CONSOLIDATION)
    if not against:
        return ["Not run: there are no schemes to compare."]
    best = max(against, key=lambda each: each.percent)
    worst = min(against, key=lambda each: each.percent)
    worse = sum(each.percent < -1 for each in against)
    sentences = [
        f"Up to {whole(best.percent)} % less {claim.called} than consolidation-based methods "
        f"({best.in_words}); the abstract says up to {claim.percent} %. The median over "
        f"{len(against)} pairs of a situation and a method is "
        f"{whole(statistics.median(each.percent for each in against))} %, the least "
        f"{whole(worst.percent)} % ({worst.in_words}; below 0 Dally needs more). In {worse} of "
        "them Dally needs more by over 1 %."
    ]
    elsewhere = reductions(
        results, claim, situations, [each for each in SCHEMES if each not in (DALLY, OURS)]
    )
    rivals = [each for each in elsewhere if each.against not in CONSOLIDATION]
    if rivals:
        strongest = min(rivals, key=lambda each: each.percent)
        sentences.append(
            "Against the other schemes, ours left out, the median is "
            f"{whole(statistics.median(each.percent for each in rivals))} %, the least "
            f"{whole(strongest.percent)} % ({strongest.in_words})."
        )
    ours = [
        each
        for situation in situations
        if (each := reduction(results, claim, situation, OURS, DALLY)) is not None
    ]
    if ours:
        percents = [each.percent for each in ours]
        sentences.append(
            f"{NAMES[OURS][0].upper()}{NAMES[OURS][1:]} needs "
            f"{whole(statistics.median(percents))} % less than Dally (median over {len(ours)} "
            f"situations; from {whole(min(percents))} % to {whole(max(percents))} %)."
        )
    return sentences


def measured(results: Results, claim: Claim, situations: Sequence[AnySituation]) -> Table:
    """Return what was measured, a row for each situation, means over seeds, beside bounds."""
    rows = []
    for situation in situations:
        row = [situation.in_words]
        for scheme in SCHEMES:
            found = results.over_seeds(scheme, situation)
            row.append(_mean([getattr(metrics, claim.measure) for metrics in found], claim))
        bounds = [results.of(case) for case in bounds_of([situation], results.setting)]
        row.append(
            _mean(
                [bound[claim.measure] for bound in bounds if bound and claim.measure in bound],
                claim,
            )
        )
        rows.append(row)
    header = ["", *(NAMES[scheme] for scheme in SCHEMES), "bound for any scheme"]
    if all(row[-1] == MISSING for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return Table(
        title=f"{claim.called[0].upper()}{claim.called[1:]} ({claim.unit}), means over seeds",
        header=header,
        rows=rows,
    )


def _mean(values: Sequence[float], claim: Claim) -> str:
    return short(statistics.fmean(values) / claim.unit_size) if values else MISSING


def reduced(results: Results, claim: Claim, situations: Sequence[AnySituation]) -> Table:
    """Return how much less Dally needs than each other scheme, a row for each situation."""
    others = [scheme for scheme in SCHEMES if scheme != DALLY]
    rows = []
    for situation in situations:
        found = [reduction(results, claim, situation, DALLY, scheme) for scheme in others]
        rows.append([situation.in_words, *(MISSING if f is None else _percent(f) for f in found)])
    return Table(
        title=f"Dally's {claim.called} less by (%); below 0 Dally needs more",
        header=["", *(f"than {NAMES[scheme]}" for scheme in others)],
        rows=rows,
    )


def series(
    results: Results, claims: Sequence[Claim], situations: Sequence[AnySituation]
) -> dict[str, list[tuple[float, float]]]:
    """Return Dally's reductions for plots: place of the situation, and per cent.

    By name of the claim and of the other scheme, as `series_name` has it.
    """
    return {
        series_name(claim, scheme): [
            (place, found.percent)
            for place, situation in enumerate(situations)
            if (found := reduction(results, claim, situation, DALLY, scheme)) is not None
        ]
        for claim in claims
        for scheme in SCHEMES
        if scheme != DALLY
    }


def series_name(claim: Claim, scheme: str) -> str:
    """Return the name of a series."""
    return f"{claim.called}: {NAMES[scheme]}"


def _percent(found: Reduction) -> str:
    if found.spread is None:
        return whole(found.percent)
    low, high = found.spread
    return f"{whole(found.percent)} ({whole(low)} to {whole(high)})"


def _ratio(before: float, after: float) -> float:
    """Return after over before; 1 where both are 0."""
    if before:
        return after / before
    return math.inf if after else 1.0


def _geometric_mean(ratios: Sequence[float]) -> float:
    return 0.0 if min(ratios) == 0 else statistics.geometric_mean(ratios)


def whole(value: float) -> str:
    """Return a number without digits after the point; 0 has no sign."""
    return f"{round(value) + 0:d}"


def short(value: float) -> str:
    """Return a number with three digits, or all of its whole ones."""
    return f"{value:.3g}" if value < 999.5 else f"{value:,.0f}"
