"""What every allocation family does alike: its parameters, its names and its streams."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from lyra_opt.allocation.instance import Instance, Objective
from lyra_opt.instances.allocation.parameters import AllocationParameters
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.allocation.instance import ElasticJob


class AllocationFamily(ParameterisedFamily):
    """A family of allocation instances."""

    problem = "allocation"
    parameters = AllocationParameters
    is_drawn: ClassVar[bool] = True

    @abstractmethod
    def _draw(
        self, parameters: AllocationParameters, seed: int
    ) -> tuple[int, Sequence[ElasticJob]]:
        """Return the GPUs and the jobs."""

    @abstractmethod
    def _label(self, parameters: AllocationParameters) -> str:
        """Return what an instance's name says of the parameters beside jobs and objective."""

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether seeds matter."""
        self.check(parameters)
        return self.is_drawn

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:
        """Return the instance; raise `UserError` if there is none for the parameters."""
        checked: AllocationParameters = self.check(parameters)
        gpus, jobs = self._draw(checked, seed)
        return Instance(
            name=self._instance_name(checked, seed),
            objective=Objective(checked.objective),
            gpus=gpus,
            jobs=tuple(jobs),
        )

    def _instance_name(self, parameters: AllocationParameters, seed: int) -> str:
        name = f"{self.name}-v{self.version}-n{parameters.jobs}{self._label(parameters)}"
        if parameters.objective != Objective.MEAN_JCT:
            name += f"-{parameters.objective}"
        return f"{name}-seed{seed}" if self.is_drawn else name

    def _stream(self, purpose: str, jobs: int, seed: int) -> IntegerStream:
        return IntegerStream(
            family=self.name, version=self.version, purpose=purpose, jobs=jobs, seed=seed
        )
