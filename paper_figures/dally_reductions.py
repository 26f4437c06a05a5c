"""Reductions by Dally compared with other schemes, and the claims of Dally's abstract."""

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from lyra_opt.core.numbers import HOUR_S
from lyra_opt.paper_figures.comparison import MISSING, Computed, FurtherTable
from lyra_opt.paper_figures.document import PaperTable
from lyra_opt.paper_figures.results import Outcome, Part, not_none, short
from lyra_opt.paper_figures.setting import PaperRun

DALLY, OURS = "dally", "priced-placement"
CONSOLIDATION = ("consolidated", "tiresias-skew", "gandiva-affinity", "gandiva-shuffled")
"""The schemes that the abstract calls "prevailing consolidation-based scheduling methods".

The abstract does not name them. These are the ones in its author's simulator, and consolidation
without a time limit.
"""

BOUNDS = {"makespan_s": "makespan_bound_s", "jct_mean_s": "jct_mean_bound_s"}
"""The figure of a replay that holds the proved lower bound on another figure, for any scheme."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A claim of Dally's abstract: a quantity is lower by up to some percentage.

    Parameters
    ----------
    measure
        The figure of a replay.
    called, unit
        The name of the quantity in tables, and its unit, which is a kind of hours.
    table
        The number of the table that holds the paper's percentage.
    """

    measure: str
    called: str
    unit: str
    table: int

    @property
    def title(self) -> str:
        """The name of the claimed quantity with a capital letter."""
        return self.called[0].upper() + self.called[1:]

    def percent(self, paper: PaperTable) -> str:
        """Return the claimed percentage as the abstract prints it."""
        (found,) = (
            each.rows[0].paper[0]
            for each in paper.publications
            if (each.kind, each.number) == ("table", self.table)
        )
        return found


CLAIMS = {
    "makespan": Claim(measure="makespan_s", called="makespan", unit="h", table=1),
    "jct": Claim(measure="jct_mean_s", called="mean JCT", unit="h", table=2),
    "communication": Claim(
        measure="communication_s", called="communication of a job", unit="GPU h", table=3
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reduction:
    """The reduction of a quantity by one scheme compared with another in a scenario.

    Parameters
    ----------
    place
        The other scheme and the scenario, in words.
    against
        The other scheme.
    percent
        The reduction from the geometric mean of ratios over seeds; below 0 for an increase.
    spread
        The least and the greatest reduction over seeds; None with a single seed.
    """

    place: str
    against: str
    percent: float
    spread: tuple[float, float] | None


def over_seeds(part: Part, scheme: str, situation: str) -> list[Outcome]:
    """Return the simulations of a scheme in a scenario, one per finished seed."""
    return not_none(part.outcomes(PaperRun(scenario=situation, scheme=scheme)))


def reduction(
    part: Part, claim: Claim, situation: str, scheme: str, against: str
) -> Reduction | None:
    """Return how much one scheme reduces a quantity relative to another; None without runs."""
    outcomes = (
        part.outcomes(PaperRun(scenario=situation, scheme=name)) for name in (against, scheme)
    )
    ratios = [
        _ratio(before.figures[claim.measure], after.figures[claim.measure])
        for before, after in zip(*outcomes, strict=True)
        if before is not None and after is not None
    ]
    if not ratios:
        return None
    percents = [100 * (1 - ratio) for ratio in ratios]
    paper = part.results.paper
    return Reduction(
        place=f"against {paper.called[against]}, {paper.scenarios[situation].called}",
        against=against,
        percent=100 * (1 - _geometric_mean(ratios)),
        spread=(min(percents), max(percents)) if len(percents) > 1 else None,
    )


def reductions(
    part: Part, claim: Claim, situations: Sequence[str], against: Sequence[str]
) -> list[Reduction]:
    """Return Dally's reductions compared with each given scheme in each given scenario."""
    return not_none(
        reduction(part, claim, situation, DALLY, scheme)
        for situation in situations
        for scheme in against
    )


def held_against(
    part: Part,
    *,
    claims: Sequence[str],
    situations: Sequence[str],
    shares: bool = False,
    only_series: bool = False,
) -> Computed:
    """Return Dally's largest reduction for each claim, with tables of all runs.

    Parameters
    ----------
    claims
        Names of `CLAIMS`.
    situations
        Scenarios of the paper.
    shares
        Whether to add communication as a share of GPU time.
    only_series
        Whether to return only the series for a plot, because other tables show the numbers.
    """
    known = [name for name in situations if not part.setting.missing_traces(name)]
    values = {}
    for row in part.publication.rows:
        (claim,) = (CLAIMS[name] for name in claims)
        best = max(
            reductions(part, claim, known, CONSOLIDATION),
            key=lambda each: each.percent,
            default=None,
        )
        (column,) = part.publication.columns
        values[row.name, column.name] = (
            (None, None) if best is None else (best.percent, best.spread)
        )
    series = _series(part, [CLAIMS[name] for name in claims], known)
    if only_series:
        return Computed(values=values, series=series)
    tables = [
        table(part, CLAIMS[name], known)
        for name in claims
        for table in (measured, reduced)
        if known
    ]
    if shares:
        tables.append(_shares(part, known))
    return Computed(
        values=values,
        findings=[sentence for name in claims for sentence in _findings(part, CLAIMS[name], known)],
        tables=tables,
        series=series,
    )


def in_one_situation(part: Part, *, against: str, situations: Sequence[str]) -> Computed:
    """Return Dally's reductions for all claims, with one scenario per row.

    Parameters
    ----------
    against
        The scheme that Dally is compared with.
    situations
        Scenarios of the paper, in the order of the rows.
    """
    paper = part.results.paper
    values = {}
    for row, situation in zip(part.publication.rows, situations, strict=True):
        assert row.name == paper.scenarios[situation].called, "a row has the title of its scenario"
        for column, claim in zip(part.publication.columns, CLAIMS.values(), strict=True):
            found = reduction(part, claim, situation, DALLY, against)
            given = (None, None) if found is None else (found.percent, found.spread)
            values[row.name, column.name] = given
    return Computed(
        values=values,
        tables=[_beside(part, claim, against, situations) for claim in CLAIMS.values()],
    )


def _by_situation(
    part: Part,
    title: str,
    header: Sequence[str],
    situations: Sequence[str],
    cells: Callable[[str], Iterable[str]],
) -> FurtherTable:
    """Return a table with one row per scenario; the function `cells` returns a row's cells."""
    scenarios = part.results.paper.scenarios
    rows = [[scenarios[situation].called, *cells(situation)] for situation in situations]
    return FurtherTable(title=title, header=["", *header], rows=rows)


def _beside(part: Part, claim: Claim, against: str, situations: Sequence[str]) -> FurtherTable:
    """Return a table of one quantity for two schemes, with one row per scenario."""
    schemes = (DALLY, against)
    return _by_situation(
        part,
        f"{claim.title} ({claim.unit}), means over seeds",
        [part.results.paper.called[scheme] for scheme in schemes],
        situations,
        lambda situation: _means(part, claim, situation, schemes),
    )


def _means(part: Part, claim: Claim, situation: str, schemes: Iterable[str]) -> list[str]:
    """Return the means over seeds of one quantity, for each scheme in a scenario."""
    return [
        _mean([outcome.figures[claim.measure] for outcome in over_seeds(part, scheme, situation)])
        for scheme in schemes
    ]


def _findings(part: Part, claim: Claim, situations: Sequence[str]) -> list[str]:
    """Return conclusions on a claim, one sentence each."""
    called = part.results.paper.called
    against = reductions(part, claim, situations, CONSOLIDATION)
    if not against:
        return ["Not run: there are no schemes to compare."]
    best = max(against, key=lambda each: each.percent)
    worst = min(against, key=lambda each: each.percent)
    worse = sum(each.percent < -1 for each in against)
    sentences = [
        f"Dally needs up to {whole(best.percent)} % less {claim.called} than consolidation-based "
        f"methods ({best.place}); the abstract says up to {claim.percent(part.results.paper)} %. "
        f"The median over {len(against)} pairs of a scenario and a method is "
        f"{whole(statistics.median(each.percent for each in against))} %, and the lowest is "
        f"{whole(worst.percent)} % ({worst.place}; negative if Dally needs more). In {worse} of "
        "the pairs Dally needs over 1 % more."
    ]
    rivals = reductions(
        part,
        claim,
        situations,
        [each for each in called if each not in (DALLY, OURS, *CONSOLIDATION)],
    )
    if rivals:
        strongest = min(rivals, key=lambda each: each.percent)
        sentences.append(
            "Compared with the other schemes, without ours, the median is "
            f"{whole(statistics.median(each.percent for each in rivals))} % and the lowest is "
            f"{whole(strongest.percent)} % ({strongest.place})."
        )
    ours = not_none(reduction(part, claim, situation, OURS, DALLY) for situation in situations)
    if ours:
        percents = [each.percent for each in ours]
        sentences.append(
            f"{called[OURS][0].upper()}{called[OURS][1:]} needs "
            f"{whole(statistics.median(percents))} % less than Dally (median over {len(ours)} "
            f"scenarios; from {whole(min(percents))} % to {whole(max(percents))} %)."
        )
    return sentences


def measured(part: Part, claim: Claim, situations: Sequence[str]) -> FurtherTable:
    """Return a table of one quantity for all schemes and scenarios, with proved bounds."""
    called = part.results.paper.called
    bounds = {name: _mean(bounds_s(part, name, claim.measure)) for name in situations}
    has_bounds = any(bound != MISSING for bound in bounds.values())

    def cells(situation: str) -> list[str]:
        means = _means(part, claim, situation, called)
        return [*means, bounds[situation]] if has_bounds else means

    header = [*called.values(), *(["bound for any scheme"] if has_bounds else [])]
    title = f"{claim.title} ({claim.unit}), means over seeds"
    return _by_situation(part, title, header, situations, cells)


def bounds_s(part: Part, situation: str, measure: str) -> list[float]:
    """Return the proved lower bound on a mean JCT or makespan per seed of a scenario, in seconds.

    The list is empty if no bound is known.
    """
    if measure not in BOUNDS:
        return []
    bound = BOUNDS[measure]
    return [
        outcome.figures[bound]
        for outcome in over_seeds(part, DALLY, situation)
        if bound in outcome.figures
    ]


def _mean(values: Sequence[float]) -> str:
    return short(statistics.fmean(values) / HOUR_S) if values else MISSING


def reduced(part: Part, claim: Claim, situations: Sequence[str]) -> FurtherTable:
    """Return a table of Dally's reductions compared with each scheme, by scenario."""
    called = part.results.paper.called
    others = [scheme for scheme in called if scheme != DALLY]

    def cells(situation: str) -> list[str]:
        found = [reduction(part, claim, situation, DALLY, scheme) for scheme in others]
        return [MISSING if each is None else _percent(each) for each in found]

    title = f"Reduction of {claim.called} under Dally (%); negative if Dally needs more"
    header = [f"from {called[scheme]}" for scheme in others]
    return _by_situation(part, title, header, situations, cells)


def _shares(part: Part, situations: Sequence[str]) -> FurtherTable:
    """Return a table of communication as a share of GPU time."""
    called = part.results.paper.called

    def cells(situation: str) -> Iterator[str]:
        for scheme in called:
            found = over_seeds(part, scheme, situation)
            shares = [100 * outcome.figures["communication_share"] for outcome in found]
            yield f"{statistics.fmean(shares):.1f}" if shares else MISSING

    title = "Communication as a share of the time on GPUs (%), means over seeds"
    return _by_situation(part, title, list(called.values()), situations, cells)


def _series(
    part: Part, claims: Sequence[Claim], situations: Sequence[str]
) -> dict[str, list[tuple[float, float]]]:
    """Return Dally's reductions as plot series: pairs of scenario position and reduction in %.

    The key is the name of the claim and of the other scheme, as `series_name` returns it.
    """
    called = part.results.paper.called
    return {
        series_name(claim, called[scheme]): [
            (place, found.percent)
            for place, situation in enumerate(situations)
            if (found := reduction(part, claim, situation, DALLY, scheme)) is not None
        ]
        for claim in claims
        for scheme in called
        if scheme != DALLY
    }


def series_name(claim: Claim, called: str) -> str:
    """Return the name of the plot series for a claim and a scheme."""
    return f"{claim.called}: {called}"


def _percent(found: Reduction) -> str:
    if found.spread is None:
        return whole(found.percent)
    low, high = found.spread
    return f"{whole(found.percent)} ({whole(low)} to {whole(high)})"


def _ratio(before: float, after: float) -> float:
    """Return `after` divided by `before`; 1 if both are 0."""
    if before:
        return after / before
    return math.inf if after else 1.0


def _geometric_mean(ratios: Sequence[float]) -> float:
    return 0.0 if min(ratios) == 0 else statistics.geometric_mean(ratios)


def whole(value: float) -> str:
    """Return a number rounded to an integer as text, never as ``-0``."""
    return f"{round(value) + 0:d}"
