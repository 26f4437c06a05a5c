"""What Figures 14 to 16 have in common: gains by the share of elastic jobs, without loans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from instances.workloads.scenario import Scenario
from paper_figures.comparison import Entry
from paper_figures.lyra.schemes import (
    AFS,
    BASELINE,
    GANDIVA,
    POLLUX,
    SCALING,
    TUNED,
    gain_over_baseline,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from paper_figures.simulations import Case, Results

PERCENTAGES = (20, 40, 60, 80, 100)
SCHEMES = {
    "Gandiva": GANDIVA,
    "AFS": AFS,
    "Pollux": POLLUX,
    "Lyra": SCALING,
    "Lyra+TunedJobs": TUNED,
}


def case_of(scheme: str, percent: int, *, loss_percent: int = 0) -> Case:
    """Return a scheme of the figures with that many elastic jobs."""
    scenario = Scenario(elastic_percent=percent, scaling_loss_percent=loss_percent)
    return replace(SCHEMES[scheme], scenario=scenario)


def cases_of(schemes: Sequence[str], *, loss_percent: int = 0) -> list[Case]:
    """Return the cases of some schemes."""
    return [
        BASELINE,
        *(
            case_of(scheme, percent, loss_percent=loss_percent)
            for scheme in schemes
            for percent in PERCENTAGES
        ),
    ]


def entries_of(
    results: Results,
    paper: Mapping[str, Sequence[str]],
    *,
    measure: str,
    key: str,
    loss_percent: int = 0,
) -> list[Entry]:
    """Return gains over the Baseline: a row for each scheme, a column for each share."""
    return [
        Entry.published_gain(
            f"{scheme}, {measure}",
            f"{percent} % elastic",
            printed,
            gain_over_baseline(results, case_of(scheme, percent, loss_percent=loss_percent), key),
        )
        for scheme, row in paper.items()
        for percent, printed in zip(PERCENTAGES, row, strict=True)
    ]
