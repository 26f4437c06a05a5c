"""Keep a sample of the decisions that a simulation puts to solvers, as instance files."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from lyra_opt.documents import write_text
from lyra_opt.loading import instance_text
from lyra_opt.problem import find_problem
from lyra_opt.seeding import generator

if TYPE_CHECKING:
    from pathlib import Path

MOST_CAPTURED = 50
"""Instances of each kind that are kept of one run."""


class Capture:
    """A sample of the decisions of one run, for each kind by itself, equally likely all.

    Reservoir sampling (Vitter 1985, algorithm R): the number of decisions need not be known
    beforehand. The same seed keeps the same decisions.

    Parameters
    ----------
    workload, scheme
        Whose run it is; both get into the names of the instances.
    seed
        Of the draws.
    most
        Instances of each kind that are kept at most, at least 1.
    """

    def __init__(self, *, workload: str, scheme: str, seed: int, most: int = MOST_CAPTURED) -> None:
        self._workload, self._scheme, self._most = workload, scheme, most
        self._rng = generator(capture=scheme, workload=workload, seed=seed)
        self._kept: dict[str, list[tuple[int, Any]]] = {}
        self.seen: dict[str, int] = {}
        """Decisions met, by kind."""

    def __call__(self, kind: str, instance: Any) -> None:
        """Take note of a decision."""
        kept = self._kept.setdefault(kind, [])
        number = self.seen.get(kind, 0)
        self.seen[kind] = number + 1
        if number < self._most:
            kept.append((number, instance))
        elif (place := int(self._rng.integers(number + 1))) < self._most:
            kept[place] = number, instance

    def in_words(self) -> str:
        """Return how many decisions are kept."""
        if not self.seen:
            return f"scheme {self._scheme} puts no decision to a solver: nothing captured"
        counts = " and ".join(
            f"{len(self._kept[kind]):,} of {seen:,} {kind}"
            for kind, seen in sorted(self.seen.items())
        )
        return f"scheme {self._scheme}: captured {counts} decisions"

    def save(self, folder: Path) -> list[Path]:
        """Write an instance file for each decision kept; return their paths."""
        paths = []
        for kind, kept in self._kept.items():
            problem = find_problem(kind)
            for _, instance in sorted(kept, key=lambda entry: entry[0]):
                moment = instance.name.removeprefix(f"{kind}-")
                named = replace(instance, name=f"{self._workload}-{kind}-{self._scheme}-{moment}")
                path = folder / f"{kind}-{self._scheme}-{moment}.json"
                write_text(path, instance_text(problem, named))
                paths.append(path)
        return paths
