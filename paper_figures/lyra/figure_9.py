"""Figure 9: usage of servers on loan, by day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paper_figures.comparison import Comparison, Entry
from paper_figures.lyra.schemes import LOANING

if TYPE_CHECKING:
    from paper_figures.simulations import Case, Results, Setting

# Day by day.
PAPER = (
    "0.936",
    "0.962",
    "0.965",
    "0.990",
    "0.952",
    "0.960",
    "0.961",
    "0.967",
    "0.978",
    "0.974",
    "0.935",
    "0.945",
    "0.925",
    "0.948",
    "0.968",
)


def cases(setting: Setting) -> list[Case]:  # noqa: ARG001
    """Return what the figure is made of."""
    return [LOANING]


def compare(results: Results) -> Comparison:
    """Return the usage of the paper's 15 days beside ours."""
    result = results.of(LOANING)
    assert result is not None, "Lyra is always there"
    return Comparison(
        name="lyra-figure-9",
        title="Lyra (EuroSys 2023), Figure 9: usage of servers on loan, by day",
        entries=[
            Entry.simulated(f"day {day}", "usage of servers on loan", paper, ours)
            for day, (paper, ours) in enumerate(
                zip(PAPER, result.daily_loan_usage(len(PAPER)), strict=True), start=1
            )
        ],
        notes=[
            results.setting.in_words(),
            "Loaning without scaling, Basic. Ours is of all servers that the inference cluster "
            "lends, whether training needs them or not: the paper does not say how many are "
            "offered and how many are taken.",
            "The poster of the paper says about 93 %.",
        ],
    )
