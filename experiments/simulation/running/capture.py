"""Keep a sample of the decisions of a simulation, as instance files of the problem that they are.

Most decisions of a cluster are easy: there is a choice that costs nobody anything. They would fill
a sample of all, so that contested and easy decisions are sampled apart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from lyra_opt.allocation.instance import Objective
from lyra_opt.core.loading import instance_text
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import find_solver

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy as np

    from lyra_opt.allocation.instance import Instance as AllocationInstance
    from lyra_opt.heterogeneous.instance import Instance as HeterogeneousInstance
    from lyra_opt.network.instance import Instance as NetworkInstance
    from lyra_opt.reclaim import Instance as ReclaimInstance

MOST_CAPTURED = 50
"""Contested decisions of each kind that are kept of one run, and easy ones, by default."""

CONTESTED, EASY = "contested", "easy"

YARDSTICK = "lyra-greedy"
"""The reclaim solver whose answer tells contested from easy decisions, whatever the scheme."""

EntryT = TypeVar("EntryT")


def preempts_somebody(instance: ReclaimInstance) -> bool:
    """Return whether Lyra's greedy rule pays for its choice of servers.

    If not, its choice is an optimum, and the decision is easy. If it does, the optimum may still
    be 0.
    """
    result = find_solver("reclaim", YARDSTICK).solve(
        instance, limits=Limits(), rng=generator(capture=YARDSTICK)
    )
    objective = find_problem("reclaim").check(instance, result.solution).objective
    assert objective is not None, "a heuristic's choice is valid"
    return objective > 0


def lacks_gpus(instance: AllocationInstance) -> bool:
    """Return whether the GPUs do not suffice for the most workers of every job."""
    if instance.objective is Objective.JCT_REDUCTION:
        wanted = sum(job.max_gpus - job.min_gpus for job in instance.jobs)
    else:
        wanted = sum(job.max_gpus for job in instance.jobs)
    return wanted > instance.gpus


def _asked(instance: HeterogeneousInstance | NetworkInstance) -> int:
    """Return the GPUs that the gangs of an instance ask for together."""
    return sum(job.gang for job in instance.jobs)


_IS_CONTESTED: Mapping[str, Callable[[Any], bool]] = {
    "reclaim": preempts_somebody,
    "allocation": lacks_gpus,
    "heterogeneous": lambda instance: (
        _asked(instance) > sum(sum(server.gpus.values()) for server in instance.servers)
    ),
    "network": lambda instance: _asked(instance) > instance.free_gpus,
}
"""A decision on gangs is contested if the GPUs do not suffice for all of them."""


class Reservoir(Generic[EntryT]):
    """An equally likely sample of entries whose number is not known beforehand.

    Source: Vitter 1985, algorithm R.

    Parameters
    ----------
    most
        Entries that are kept at most, at least 1.
    rng
        Of the draws.
    """

    def __init__(self, most: int, rng: np.random.Generator) -> None:
        self._most, self._rng = most, rng
        self._kept: list[tuple[int, EntryT]] = []
        self.seen = 0
        """Entries offered so far."""

    def offer(self, entry: EntryT) -> None:
        """Keep an entry, or do not."""
        number = self.seen
        self.seen += 1
        if number < self._most:
            self._kept.append((number, entry))
        elif (place := int(self._rng.integers(number + 1))) < self._most:
            self._kept[place] = number, entry

    @property
    def kept(self) -> list[EntryT]:
        """The sample, in the order of the offers."""
        return [entry for _, entry in sorted(self._kept, key=lambda kept: kept[0])]


class Capture:
    """Samples of the decisions of one run: for each kind one of the contested and one of the easy.

    A reclaim decision is contested if Lyra's greedy rule preempts somebody, an allocation decision
    if the GPUs do not suffice for the most workers of every job, one on gangs if they do not
    suffice for all gangs. The same seed keeps the same decisions.

    Parameters
    ----------
    workload, scheme
        Whose run it is; both get into the names of the instances.
    seed
        Of the draws.
    most
        Decisions that each sample holds at most, at least 1.
    """

    def __init__(self, *, workload: str, scheme: str, seed: int, most: int = MOST_CAPTURED) -> None:
        self._workload, self._scheme, self._most = workload, scheme, most
        self._seed = seed
        self._samples: dict[tuple[str, str], Reservoir[Any]] = {}

    def __call__(self, kind: str, instance: Any) -> None:
        """Take note of a decision."""
        name = CONTESTED if _IS_CONTESTED[kind](instance) else EASY
        sample = self._samples.get((kind, name))
        if sample is None:
            rng = generator(
                capture=self._scheme,
                workload=self._workload,
                kind=kind,
                sample=name,
                seed=self._seed,
            )
            sample = self._samples[kind, name] = Reservoir(self._most, rng)
        sample.offer(instance)

    def in_words(self) -> str:
        """Return how many decisions are kept."""
        if not self._samples:
            return f"scheme {self._scheme} puts no decision to a solver: nothing captured"
        counts = ", ".join(
            f"{len(sample.kept):,} of {sample.seen:,} {name} {kind} decisions"
            for (kind, name), sample in sorted(self._samples.items())
        )
        return f"scheme {self._scheme}: captured {counts}"

    def documents(self) -> dict[str, str]:
        """Return an instance file for each decision kept, by name.

        A file is called after kind, sample, scheme and moment, such as
        ``reclaim-contested-lyra-at-300-s.json``; decisions of one moment are numbered.
        """
        documents = {}
        namesakes: Counter[tuple[str, str]] = Counter()
        for (kind, name), sample in self._samples.items():
            problem = find_problem(kind)
            for instance in sample.kept:
                moment = instance.name.removeprefix(f"{kind}-")
                namesakes[kind, moment] += 1
                if (number := namesakes[kind, moment]) > 1:
                    moment = f"{moment}-{number}"
                named = replace(instance, name=f"{self._workload}-{kind}-{self._scheme}-{moment}")
                file = f"{kind}-{name}-{self._scheme}-{moment}.json"
                documents[file] = instance_text(problem, named)
        return documents
