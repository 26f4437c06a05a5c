"""Figure 1: the length of the slot, on HadarE's mixes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.heterogeneous.generated_jobs import MIX_SIZES
from paper_figures.comparison import Comparison, Entry, Source, Table
from paper_figures.hadar.cases import REMEMBERED_OF_TESTBEDS, TESTBEDS, MixCase
from paper_figures.hadar.schemes import HADAR, HADARE, NAMES, notes_on_missing
from paper_figures.hadar.table_3 import SCHEMES as SCHEMES_OF_TABLE_3
from paper_figures.runs import mean_of_ratios

if TYPE_CHECKING:
    from collections.abc import Sequence

    from paper_figures.hadar.cases import Results, Setting

SLOTS_S = (90, 180, 360, 720)
USUAL_S = 360
SMALL_MIXES = (1, 3, 4)
SCHEMES = (HADAR, HADARE)
assert set(SCHEMES) <= set(SCHEMES_OF_TABLE_3), "runs at 360 s are shared"


def cases(setting: Setting) -> list[MixCase]:  # noqa: ARG001
    """Return what the figure is made of."""
    return [
        MixCase(scheme=scheme, testbed=testbed, jobs=jobs, round_s=float(slot_s))
        for testbed in TESTBEDS
        for jobs in MIX_SIZES
        for scheme in SCHEMES
        for slot_s in SLOTS_S
    ]


def compare(results: Results) -> Comparison:
    """Return what is remembered beside ours."""
    entries = []
    rows = []
    series = {}
    for scheme in SCHEMES:
        for mixes, what, paper in (
            (MIX_SIZES, "all mixes", str(USUAL_S)),
            (SMALL_MIXES, "M-1 to M-4", str(SLOTS_S[0])),
        ):
            means = {slot_s: _relative(results, scheme, mixes, slot_s) for slot_s in SLOTS_S}
            known = {slot_s: mean for slot_s, mean in means.items() if mean is not None}
            best = min(known, key=lambda slot_s: (known[slot_s], slot_s)) if known else None
            row = f"{NAMES[scheme]}, {what}"
            entries.append(_best_slot(row, paper, best))
            series[row] = list(known.items())
            rows.append([row, *("" if m is None else f"{m:.3f}" for m in means.values())])
    return Comparison(
        name="hadar-figure-1",
        title="HadarE, Figure 1: slot length and TTD of the mixes",
        entries=entries,
        remembered=REMEMBERED_OF_TESTBEDS,
        tables=[
            Table(
                title=f"TTD over that at {USUAL_S} s, geometric mean over mixes and both testbeds",
                header=["", *(f"{slot_s} s" for slot_s in SLOTS_S)],
                rows=rows,
            )
        ],
        series=series,
        notes=[
            "What is remembered is that slots of 360 s are usually good, and that shorter ones "
            f"are better for small workloads; the latter is read as {SLOTS_S[0]} s, the shortest "
            "of those tried, for the mixes of at most four jobs.",
            "A start or move costs 10 s whatever the slot, and merging copies 10 s of each slot "
            "(assumed): with copies short slots cost more and win less, for copies leave few nodes "
            "idle. Without copies a short slot only lets a node be given on sooner, and a job that "
            "stays where it is pays nothing. Which slot is best thus follows from costs that were "
            "assumed, and differences are of few per cent.",
            *notes_on_missing(SCHEMES),
        ],
    )


def _best_slot(row: str, paper: str, ours: int | None) -> Entry:
    column = "slot of least TTD (s)"
    if ours is None:
        return Entry.published_gain(row, column, paper, None, source=Source.MEMORY)
    return Entry.exact(row, column, paper, float(ours), source=Source.MEMORY)


def _relative(results: Results, scheme: str, mixes: Sequence[int], slot_s: float) -> float | None:
    """Return the mean of a scheme's TTD with a slot over that with the usual one."""
    found = []
    for testbed in TESTBEDS:
        for jobs in mixes:
            runs = [
                results.of(
                    MixCase(scheme=scheme, testbed=testbed, jobs=jobs, round_s=float(length_s))
                )
                for length_s in (slot_s, USUAL_S)
            ]
            if None not in runs:
                found.append(runs[0].ttd_s / runs[1].ttd_s)
    return mean_of_ratios(found)[0]
