"""Figure 7: usage of both clusters together, hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import BASELINE, IDEAL_LYRA, LYRA

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

FIRST_HOUR = 48
HOURS = 48

# Least and most of the hourly usage within 48 hours, read by eye.
ROWS = {
    "Baseline": (BASELINE, ("0.37", "0.65")),
    "Basic, Lyra": (LYRA, ("0.54", "0.75")),
    "Ideal, Lyra": (IDEAL_LYRA, ("0.64", "0.79")),
}


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return [case for case, _ in ROWS.values()]


def compare(results: Results) -> Comparison:
    """Return the ends of the paper's curves beside ours."""
    entries = []
    reference: list[float] = []
    for name, (case, printed) in ROWS.items():
        result = results.of(case)
        assert result is not None, "the schemes of this figure are always there"
        usage = result.hourly_usage(FIRST_HOUR, HOURS)
        ours = [float(usage.min()), float(usage.max())]
        reference = reference or ours
        for place, column in enumerate(("least", "most")):
            if case is BASELINE:
                entries.append(Entry.simulated(name, column, printed[place], ours[place]))
            else:
                entries.append(
                    Entry.compared(
                        name,
                        column,
                        printed[place],
                        ours[place],
                        paper_reference=ROWS["Baseline"][1][place],
                        our_reference=reference[place],
                        more_is_better=True,
                    )
                )
    return Comparison(
        name="lyra-figure-7",
        title="Lyra (EuroSys 2023), Figure 7: hourly usage of both clusters within 48 hours",
        entries=entries,
        notes=[
            results.setting.in_words(),
            "The paper's numbers are read by eye, and which two days it shows is not known; ours "
            "are the third and the fourth.",
            "How the paper defines overall usage is not known: its Baseline falls below what "
            "inference alone uses in Figure 1.",
        ],
    )
