"""What every allocation family does alike: its parameters, its names and its streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

from instances.allocation.parameters import PARAMETERS, AllocationParameters
from instances.parameters import given_parameters
from instances.randomness import IntegerStream
from lyra_opt.allocation.instance import AllocationInstance, Objective

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.allocation.instance import ElasticJob, Solution


class AllocationFamily(ABC):
    """A family of allocation instances; implements `instances.family.Family`.

    Parameters
    ----------
    name, version, summary
        See `instances.family.Family`.
    """

    problem = "allocation"
    required: ClassVar[tuple[str, ...]] = ("jobs",)
    optional: ClassVar[tuple[str, ...]] = ()
    refusals: ClassVar[Mapping[str, str]] = {}
    is_drawn: ClassVar[bool] = True

    def __init__(self, name: str, *, version: int, summary: str) -> None:
        self.name = name
        self.version = version
        self.summary = summary

    @abstractmethod
    def _draw(
        self, parameters: AllocationParameters, seed: int
    ) -> tuple[int, Sequence[ElasticJob]]:
        """Return the GPUs and the jobs."""

    @abstractmethod
    def _label(self, parameters: AllocationParameters) -> str:
        """Return what an instance's name says of the parameters beside jobs and objective."""

    def _require(self, parameters: AllocationParameters) -> None:  # noqa: B027 - some need none
        """Raise `UserError` if the family has no instance for the parameters."""

    def check(self, parameters: Mapping[str, Any]) -> AllocationParameters:
        """Return the parameters, checked; raise `UserError` naming option, value and rule."""
        checked = AllocationParameters(
            **given_parameters(
                parameters,
                PARAMETERS,
                family=self.name,
                required=self.required,
                optional=self.optional,
                refusals=self.refusals,
            )
        )
        self._require(checked)
        return checked

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether seeds matter."""
        self.check(parameters)
        return self.is_drawn

    def generate(self, parameters: Mapping[str, Any], seed: int) -> AllocationInstance:
        """Return the instance; raise `UserError` if there is none for the parameters."""
        checked = self.check(parameters)
        gpus, jobs = self._draw(checked, seed)
        return AllocationInstance(
            name=self._instance_name(checked, seed),
            objective=Objective(checked.objective),
            gpus=gpus,
            jobs=tuple(jobs),
        )

    def known_optimum(
        self,
        parameters: Mapping[str, Any],  # noqa: ARG002
    ) -> tuple[Solution, float] | None:
        """Return None: no optimum is known by construction."""
        return None

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:  # noqa: ARG002
        """Return what a user should know of the instances: nothing more."""
        return ()

    def _instance_name(self, parameters: AllocationParameters, seed: int) -> str:
        name = f"{self.name}-v{self.version}-n{parameters.jobs}{self._label(parameters)}"
        if parameters.objective != Objective.MEAN_JCT:
            name += f"-{parameters.objective}"
        return f"{name}-seed{seed}" if self.is_drawn else name

    def _stream(self, purpose: str, jobs: int, seed: int) -> IntegerStream:
        return IntegerStream(
            family=self.name, version=self.version, purpose=purpose, jobs=jobs, seed=seed
        )
