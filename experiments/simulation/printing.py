"""What ``lyra-opt simulate`` prints for people, the same for all schemes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.report import PAGE
from experiments.simulation.measures import shown_measures
from lyra_opt.commands.output import print_json, print_table
from lyra_opt.errors import one_line

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping, Sequence

    from experiments.simulation.measures import Measure
    from experiments.simulation.replay import Replay


def print_replays(replays: Sequence[Replay]) -> None:
    """Print runs of one setup side by side, and what is assumed of them."""
    from experiments.simulation.page import FORMS
    from experiments.simulation.setup import POOLS, RACKS, TYPES

    setup = replays[0].setup
    cluster = setup.cluster
    place = {
        POOLS: f"scenario {setup.scenario}",
        TYPES: f"cluster {cluster.name}",
        RACKS: f"cluster {cluster.name}, network {cluster.network}",
    }[setup.kind]
    print_tables(
        f"{setup.workload.name}, {place}",
        [replay.scheme.name for replay in replays],
        [replay.as_json_object() for replay in replays],
        FORMS[setup.kind].measures,
    )


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


def report_runs(
    arguments: argparse.Namespace,
    records: Sequence[Mapping[str, Any]],
    *,
    schemes: int,
    print_tables: Callable[[], None],
) -> int:
    """Print what came of the schemes, as ``--json`` and ``--out`` ask; return the exit code.

    Parameters
    ----------
    records
        Objects of ``simulate --json``, of the schemes that did not fail.
    schemes
        How many were asked for.
    print_tables
        Prints the runs for people.
    """
    if arguments.json:
        if records:
            print_json(records[0] if schemes == 1 else list(records))
    elif records:
        print_tables()
        if arguments.out is not None:
            print(f"{Path(arguments.out) / PAGE}: all of it, with plots")
    return 0 if len(records) == schemes else 1


def say(text: str) -> None:
    """Tell people something on stderr, in one line."""
    print(f"lyra-opt: {one_line(text)}", file=sys.stderr)
