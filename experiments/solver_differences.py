"""Compute paired differences between the objectives of the solvers of a study."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.core.numbers import count, percent, signed, three_digits
from lyra_opt.core.table import Column, Table
from lyra_opt.experiments.analysis import FAMILY
from lyra_opt.experiments.random_inputs import RandomInputs, Sample

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lyra_opt.core.numbers import Show
    from lyra_opt.experiments.analysis import Analysis

RANDOM = RandomInputs(
    Sample.INSTANCES,
    "The instances are what is random: an interval covers other instances that the family draws in "
    "the same way, not other families. Instances on which one of the two has no solution are left "
    "out.",
)


def solver_differences(analysis: Analysis, baseline: str | None = None) -> Table | None:
    """Return a table of differences in the objective, with a row for each family and solver.

    Parameters
    ----------
    baseline
        The configuration with which the others are compared; None for the first one.

    Returns
    -------
    Table or None
        None if no other configuration solved an instance that the baseline solved.
    """
    names = analysis.configurations
    chosen = names[0] if baseline is None else baseline
    frame = analysis.frame
    has_number = frame.objective.notna() & (frame.terms.fillna(1) == 1)
    found = frame[has_number].pivot(
        index=[FAMILY, "cell"], columns="configuration", values="objective"
    )
    rows = []
    for name in names:
        if name == chosen or not {name, chosen} <= {*found.columns}:
            continue
        both = found[[chosen, name]].dropna().astype(float)
        for family, pairs in both.groupby(level=FAMILY, sort=False):
            before, after = pairs.to_numpy().T
            low = high = low_share = high_share = math.nan
            if len(pairs) > 1:
                low, high = RANDOM.interval(after - before)
                low_share, high_share = RANDOM.relative_interval(before, after)
            base, mean = float(before.mean()), float(after.mean())
            relative = mean / base - 1 if base else math.nan
            shares = [100 * each for each in (relative, low_share, high_share)]
            rows.append((family, name, mean, mean - base, low, high, *shares, len(pairs)))
    if not rows:
        return None
    values = [list(column) for column in zip(*rows, strict=True)]
    ends = RANDOM.ends_in_words
    shows: Sequence[tuple[str, str, Show, str]] = (
        ("mean", "mean objective", three_digits, ""),
        ("difference", "difference", signed(three_digits), ""),
        ("low", ends[0], signed(three_digits), ""),
        ("high", ends[1], signed(three_digits), ""),
        ("difference_percent", "difference", signed(percent), "%"),
        ("low_percent", ends[0], signed(percent), "%"),
        ("high_percent", ends[1], signed(percent), "%"),
        ("instances", "instances", count, ""),
    )
    columns = [
        Column(key=key, values=column, show=show, heading=heading, unit=unit)
        for (key, heading, show, unit), column in zip(shows, values[2:], strict=True)
    ]
    named = [
        Column(key=key, values=values[place]) for place, key in enumerate(("family", "solver"))
    ]
    return Table([*named, *columns], title=f"Differences in the objective from {chosen}")
