"""Table 4: the second example of two elastic jobs, from two starts."""

from __future__ import annotations

from paper_figures.comparison import Comparison
from paper_figures.lyra.two_jobs import entries_of_starts, example

# Workers of A and B at the start: JCT of A, JCT of B, mean JCT in seconds.
PAPER = {
    (3, 5): ("100", "24", "62"),
    (2, 6): ("106.67", "20", "63.33"),
}


def compare() -> Comparison:
    """Return the JCTs from each start, and the least mean JCT of any schedule."""
    return Comparison(
        name="lyra-table-4",
        title="Lyra (EuroSys 2023), Table 4: JCTs of the second example from two starts",
        entries=entries_of_starts(example("lyra-table-4"), PAPER),
        notes=["A needs at most 3 workers, and 100 s with them; B is that of Table 2."],
    )
