"""Results that cannot all be right: checked after every study and in every report."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from lyra_opt.core.result import Status
from lyra_opt.experiments.proofs import evidence_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lyra_opt.experiments.records import SolverRecord


def find_contradictions(runs: Sequence[SolverRecord]) -> list[str]:
    """Return one line for each way in which results of one instance contradict one another.

    Those that `lyra_opt.core.evidence.Evidence.contradictions` names, and equal cells that are
    not equal instances. Runs that ended in an error claim nothing.
    """
    claims = sorted(
        (run for run in runs if run.status is not Status.ERROR),
        key=lambda run: (run.cell, run.configuration),
    )
    return [
        f"{cell}: {contradiction}"
        for cell, group in groupby(claims, key=lambda run: run.cell)
        for contradiction in _of_one_instance(list(group))
    ]


def _of_one_instance(runs: list[SolverRecord]) -> Iterable[str]:
    """Yield the contradictions of one cell."""
    evidence = evidence_of(runs)
    if evidence is not None:
        yield from (contradiction.sentence for contradiction in evidence.contradictions())
    first = runs[0]
    for other in runs[1:]:
        if other.content_sha256 != first.content_sha256:
            yield (
                f"{first.configuration} and {other.configuration} ran on different instances: "
                f"content {first.content_sha256} and {other.content_sha256}"
            )
            return
