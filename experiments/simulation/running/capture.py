"""Sample the decisions of a simulation and keep them as instances of their problem.

In most decisions some choice costs nothing. Such easy decisions would fill a common sample, so
contested and easy decisions are sampled separately.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from lyra_opt.allocation.instance import Instance as AllocationInstance
from lyra_opt.allocation.instance import Objective
from lyra_opt.core.loading import instance_text
from lyra_opt.core.problem import find_problem
from lyra_opt.core.result import Limits
from lyra_opt.core.seeding import generator
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous.instance import Instance as HeterogeneousInstance
from lyra_opt.network.instance import Instance as NetworkInstance
from lyra_opt.preemption import Instance as PreemptionInstance
from lyra_opt.reclaim import Instance as ReclaimInstance

YARDSTICK = "lyra-greedy"
"""The reclaim solver that separates contested from easy decisions under every scheme."""

PREEMPTION_YARDSTICK = "kueue"
"""The preemption solver that separates contested from easy decisions under every scheme."""


def preempts_somebody(instance: ReclaimInstance) -> bool:
    """Return whether Lyra's greedy rule preempts a job when it answers a reclaim instance.

    If not, its answer is optimal and the decision is easy. Otherwise the optimum may still be 0.
    """
    result = find_solver("reclaim", YARDSTICK).solve(
        instance, limits=Limits(), rng=generator(capture=YARDSTICK)
    )
    objective = find_problem("reclaim").check(instance, result.solution).objective
    assert objective is not None, "a heuristic's choice is valid"
    return objective > 0


def loses_several(instance: PreemptionInstance) -> bool:
    """Return whether Kueue's rule loses more than one gang when it answers a preemption instance.

    If it loses one gang, no answer loses fewer gangs, and the decision is easy.
    """
    result = find_solver("preemption", PREEMPTION_YARDSTICK).solve(
        instance, limits=Limits(), rng=generator(capture=PREEMPTION_YARDSTICK)
    )
    return result.solution is None or len(result.solution.lost_gangs) > 1


def lacks_gpus(instance: AllocationInstance) -> bool:
    """Return whether the GPUs of an allocation instance do not suffice for all workers."""
    if instance.objective is Objective.JCT_REDUCTION:
        wanted = sum(job.max_gpus - job.min_gpus for job in instance.jobs)
    else:
        wanted = sum(job.max_gpus for job in instance.jobs)
    return wanted > instance.gpus


def _gang_gpus(instance: HeterogeneousInstance | NetworkInstance) -> int:
    return sum(job.gang for job in instance.jobs)


_IS_CONTESTED: Mapping[str, Callable[[Any], bool]] = {
    "reclaim": preempts_somebody,
    "allocation": lacks_gpus,
    "heterogeneous": lambda instance: (
        _gang_gpus(instance) > sum(sum(server.gpus.values()) for server in instance.servers)
    ),
    "network": lambda instance: _gang_gpus(instance) > instance.free_gpus,
    "preemption": loses_several,
}


class Reservoir:
    """A uniform random sample of at most ``most`` entries from a stream of unknown length.

    Source: Vitter 1985, algorithm R.
    """

    def __init__(self, most: int, rng: np.random.Generator) -> None:
        self._most, self._rng = most, rng
        self._kept: list[tuple[int, Any]] = []
        self.seen = 0
        """Number of entries offered so far."""

    def offer(self, entry: Any) -> None:
        """Keep the next entry of the stream with the probability that makes the sample uniform."""
        number = self.seen
        self.seen += 1
        if number < self._most:
            self._kept.append((number, entry))
        elif (slot := int(self._rng.integers(number + 1))) < self._most:
            self._kept[slot] = number, entry

    @property
    def kept(self) -> list[Any]:
        """The sampled entries, in the order of the stream."""
        return [entry for _, entry in sorted(self._kept, key=lambda kept: kept[0])]


class Capture:
    """Samples of the decisions of one run: contested and easy decisions of each problem.

    A reclaim decision is contested if Lyra's greedy rule preempts a job. An allocation decision is
    contested if the GPUs do not suffice for the maximum number of workers of every job. A decision
    on gangs is contested if the GPUs do not suffice for all gangs, and a preemption decision if
    Kueue's rule loses more than one gang. The same seed samples the same decisions.

    Parameters
    ----------
    workload, scheme
        Names of the workload and the scheme; both become part of the instances' names.
    seed
        Seed of the samples.
    most
        Largest size of each sample, at least 1.
    """

    def __init__(self, *, workload: str, scheme: str, seed: int, most: int = 50) -> None:
        self._workload, self._scheme, self._most = workload, scheme, most
        self._seed = seed
        self._samples: dict[tuple[str, str], Reservoir] = {}

    def __call__(self, kind: str, instance: Any) -> None:
        """Offer a decision, as an instance of the problem ``kind``, to its sample."""
        name = "contested" if _IS_CONTESTED[kind](instance) else "easy"
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
        """Return a message with the numbers of decisions made and saved."""
        if not self._samples:
            return f"scheme {self._scheme} asks no solver to decide: no decisions captured"
        counts = ", ".join(
            f"{len(sample.kept):,} of {sample.seen:,} {name} {kind} decisions"
            for (kind, name), sample in sorted(self._samples.items())
        )
        return f"scheme {self._scheme}: captured {counts}"

    def documents(self) -> dict[str, str]:
        """Return the text of an instance file for each sampled decision, by file name.

        A file name states problem, sample, scheme and time, such as
        ``reclaim-contested-lyra-at-300-s.json``; decisions at the same time are numbered.
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
