"""Figure 17: what reclaiming servers costs under three rules in the testbed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra import figure_10
from paper_figures.lyra.table_10 import NOTES, SEEDS, on_testbed
from paper_figures.simulations import with_seeds

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

# By row of Figure 10: preempted share of the running jobs, collateral damage.
PAPER = {
    "scaling off, Lyra": ("0.183", "0.44"),
    "scaling off, Random": ("0.30", "0.61"),
    "scaling off, SCF": ("0.261", "0.54"),
    "scaling on, Lyra": ("0.156", "0.24"),
    "scaling on, Random": ("0.233", "0.45"),
    "scaling on, SCF": ("0.217", "0.42"),
}
CASES = {name: case for name, (case, _) in (figure_10.OFF | figure_10.ON).items()}


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return [each for case in CASES.values() for each in with_seeds(on_testbed(case), SEEDS)]


def compare(results: Results) -> Comparison:
    """Return the paper's twelve numbers beside ours, the other rules compared with Lyra's."""
    ours = {
        name: figure_10.measures(results.over_seeds(on_testbed(case), SEEDS))
        for name, case in CASES.items()
    }
    entries = []
    for name, printed in PAPER.items():
        reference = f"{name.partition(',')[0]}, Lyra"
        for place, column in enumerate(figure_10.COLUMNS):
            if name == reference:
                entries.append(Entry.simulated(name, column, printed[place], ours[name][place]))
            else:
                entries.append(
                    Entry.compared(
                        name,
                        column,
                        printed[place],
                        ours[name][place],
                        paper_reference=PAPER[reference][place],
                        our_reference=ours[reference][place],
                    )
                )
    return Comparison(
        name="lyra-figure-17",
        title="Lyra (EuroSys 2023), Figure 17: reclaiming in the testbed (simulated here)",
        entries=entries,
        notes=[
            *NOTES,
            "Preemptions as in Figure 10. The other rules are compared with Lyra's; a gain below 1 "
            "is a loss.",
        ],
    )
