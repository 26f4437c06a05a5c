"""How much any scheduler could still win, and which decision holds it."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.gaps import percent_text
from lyra_opt.experiments.simulation.bounds import MEAN_JCT
from lyra_opt.experiments.simulation.durations import duration, unit_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lyra_opt.experiments.records import ReplayRecord

DECISIONS: Mapping[str, tuple[str, ...]] = {
    "order: waits to start": ("queue_first_mean_s",),
    "preemption, reclaiming: waits again, lost work, pauses": (
        *("queue_again_mean_s", "lost_work_mean_s", "pause_mean_s"),
    ),
    "allocation: fewer workers than most": ("fewer_workers_mean_s",),
    "types: slower GPUs": ("slower_type_mean_s",),
    "placement: further apart": ("slower_placement_mean_s",),
}
"""Parts of the mean JCT above the least run time by the decision that they follow from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Winnable:
    """What a scheme leaves to be won.

    Parameters
    ----------
    variant, scheme
        Of the scenario, in words, and its label.
    readings
        What schedules may do that the bound holds for.
    jct_mean_s, bound_s
        Means over seeds: of the mean JCT, and of what no schedule can beat.
    shares
        How far the mean JCT is above the bound with each seed, relative to the JCT.
    parts_s
        The mean JCT above the least run time, by decision.
    """

    variant: str
    scheme: str
    readings: tuple[str, ...]
    jct_mean_s: float
    bound_s: float
    shares: tuple[float, ...]
    parts_s: Mapping[str, float]

    @property
    def most(self) -> str:
        """The share of the mean JCT that can be won at most, with its spread over seeds."""
        text = percent_text(statistics.fmean(self.shares))
        if len(self.shares) == 1:
            return text
        return f"{text} ({percent_text(min(self.shares))} to {percent_text(max(self.shares))})"

    def in_words(self) -> tuple[str, str]:
        """Return who, and how much could be won beside him."""
        where = f"{self.scheme} with {self.variant}" if self.variant else self.scheme
        unit = unit_of(self.jct_mean_s)
        largest = max(self.parts_s.items(), key=lambda part: part[1])
        above_s = sum(self.parts_s.values())
        text = (
            f"no scheduler, whatever it knows, can win more than {self.most} of its mean JCT of "
            f"{duration(self.jct_mean_s, unit)}, as none is below {duration(self.bound_s, unit)} "
            f"({' or '.join(self.readings)})"
        )
        if above_s > 0:
            text += (
                f". It is {duration(above_s, unit)} above the least run time, "
                f"{percent_text(largest[1] / above_s)} of that by {largest[0]}"
            )
        return where, f"{text}."

    def cells(self, decisions: Sequence[str]) -> list[str]:
        """Return the row of a table, behind the scheme: `COLUMNS`, and some decisions."""
        unit = unit_of(self.jct_mean_s)
        parts = [duration(self.parts_s[name], unit) for name in decisions]
        return [duration(self.jct_mean_s, unit), duration(self.bound_s, unit), self.most, *parts]


COLUMNS = ("Mean JCT", "No schedule is below", "At most to be won")


def winnable(by_variant: Mapping[str, Sequence[ReplayRecord]]) -> Iterator[Winnable]:
    """Yield what each scheme leaves to be won, variant by variant, of those that have bounds."""
    for variant, runs in by_variant.items():
        of_scheme: dict[str, list[Mapping[str, float]]] = {}
        for run in runs:
            if run.figures is not None and MEAN_JCT in run.figures:
                of_scheme.setdefault(run.scheme, []).append(run.figures)
        for scheme, figures in of_scheme.items():
            yield Winnable(
                variant=variant,
                scheme=scheme,
                readings=tuple(dict.fromkeys(str(each["bound_reading"]) for each in figures)),
                jct_mean_s=statistics.fmean(each["jct_mean_s"] for each in figures),
                bound_s=statistics.fmean(each[MEAN_JCT] for each in figures),
                shares=tuple(max(0.0, 1 - each[MEAN_JCT] / each["jct_mean_s"]) for each in figures),
                parts_s={
                    name: statistics.fmean(
                        sum(each.get(part, 0.0) for part in parts) for each in figures
                    )
                    for name, parts in DECISIONS.items()
                },
            )


def decisions_of(left: Sequence[Winnable]) -> list[str]:
    """Return the decisions that cost anybody anything."""
    return [name for name in DECISIONS if any(each.parts_s[name] > 0 for each in left)]
