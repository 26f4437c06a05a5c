"""What ``lyra-opt simulate`` prints for people, the same for all schemes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from experiments.simulation.measures import shown_measures
from lyra_opt.commands.output import print_table
from lyra_opt.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from experiments.simulation.measures import Measure


def print_tables(
    title: str,
    names: Sequence[str],
    records: Sequence[Mapping[str, Any]],
    measures: Sequence[Measure],
) -> None:
    """Print runs side by side, and what is assumed of them.

    Parameters
    ----------
    title
        What was simulated.
    names
        Of the schemes.
    records
        Their objects of ``simulate --json``.
    measures
        Those of the table; those without a value in any run are left out.
    """
    print(f"{one_line(title)}:")
    print_table(
        ["", *names],
        [
            [measure.name, *(measure.of(record) for record in records)]
            for measure in shown_measures(records, measures)
        ],
        right=1,
    )
    print("What is assumed:")
    for sentence in dict.fromkeys(
        sentence for record in records for sentence in record["assumptions"]
    ):
        print(f"- {one_line(sentence)}")


def say(text: str) -> None:
    """Tell people something on stderr, in one line."""
    print(f"lyra-opt: {one_line(text)}", file=sys.stderr)
