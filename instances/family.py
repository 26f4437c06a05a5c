"""Instance families: what they have in common, and their registry.

A family is a seeded and versioned distribution of instances of one problem: the same
parameters and seed give the same instance, on any machine. It is found by name through the
entry-point group ``lyra_opt.instance_families``, so that another package can bring its own.

>>> from lyra_opt.instances.family import family_names, generate
>>> "messy-dist" in family_names("reclaim")
True
>>> generate(problem="reclaim", family="decoy", reclaim=2).name
'decoy-v1-k2'
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from lyra_opt.core.errors import UserError
from lyra_opt.core.plugins import PROBLEMS, Plugins
from lyra_opt.core.texts import meant
from lyra_opt.instances.parameters import SEED, option, parameters_of, require_parameter
from lyra_opt.instances.randomness import IntegerStream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Family(Protocol):
    """A family of instances of one problem."""

    @property
    def name(self) -> str:
        """The name the command line knows it by, such as ``messy-dist``."""

    @property
    def problem(self) -> str:
        """The problem that its instances belong to, such as ``reclaim``."""

    @property
    def version(self) -> int:
        """Raised whenever the same parameters and seed give another instance."""

    @property
    def summary(self) -> str:
        """What its instances look like, on one line, for ``--help``."""

    def check(self, parameters: Mapping[str, Any]) -> object:
        """Raise `UserError`, naming option, value and rule, if `parameters` are not valid."""

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether seeds matter; if not, there is one instance for the parameters."""

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Any:
        """Return the instance; raise `UserError` if there is none for the parameters."""

    def known_optimum(self, parameters: Mapping[str, Any]) -> tuple[Any, int] | None:
        """Return a solution and its objective, optimal by construction, or None."""

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return what a user should know of the instances, such as input that is left out."""


@dataclass(frozen=True)
class ParameterisedFamily(ABC):
    """What families have in common whose parameters a dataclass declares; implements `Family`.

    Parameters
    ----------
    name, version, summary
        See `Family`.
    is_drawn
        Whether instances of the same parameters and other seeds differ.
    """

    name: str
    _: KW_ONLY
    version: int
    summary: str
    is_drawn: bool = True

    problem: ClassVar[str]
    parameters: ClassVar[type[Any]]
    """Its fields are made by what is in `lyra_opt.instances.parameters`."""
    required: ClassVar[tuple[str, ...]] = ("jobs",)
    optional: ClassVar[tuple[str, ...]] = ()
    refusals: ClassVar[Mapping[str, str]] = {}
    """Why it refuses parameters, where there is more to say than that it has no use for them."""

    @abstractmethod
    def generate(self, parameters: Mapping[str, Any], seed: int) -> Any:
        """See `Family`."""

    def _require(self, parameters: Any) -> None:  # noqa: B027 - most need none
        """Raise `UserError` if the family has no instance for the checked parameters."""

    def check(self, parameters: Mapping[str, Any]) -> Any:
        """Return the parameters, checked; None stands for a value not given.

        Raises
        ------
        UserError
            If a value breaks its rule, a required one is missing, or the family does not take one
            that is given (other than its default); names option, value and rule.
        """
        known = parameters_of(self.parameters)
        given = {name: value for name, value in parameters.items() if value is not None}
        taken = self.required + self.optional
        for name, value in given.items():
            if name not in known:
                hint = meant(name, known, "known:")
                raise UserError(f"{name}: unknown parameter of instance families; {hint}")
            require_parameter(name, known[name], value)
            if name not in taken and value != known[name].default:
                reason = self.refusals.get(name, "the family has no use for it")
                raise UserError(f"{option(name)} is refused by family {self.name}: {reason}")
        for name in self.required:
            if name not in given:
                raise UserError(f"{option(name)} is required by family {self.name}")
        values = {name: given.get(name, known[name].default) for name in taken}
        checked = self.parameters(
            **{name: value for name, value in values.items() if value is not None}
        )
        self._require(checked)
        return checked

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """See `Family`."""
        self.check(parameters)
        return self.is_drawn

    def _stream(self, purpose: str, seed: int, **size: int) -> IntegerStream:
        """Return the stream of one kind of draws for instances of a size."""
        return IntegerStream(
            family=self.name, version=self.version, purpose=purpose, seed=seed, **size
        )

    def known_optimum(
        self,
        parameters: Mapping[str, Any],  # noqa: ARG002
    ) -> tuple[Any, int] | None:
        """Return None: no optimum is known by construction."""
        return None

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:  # noqa: ARG002
        """Return nothing: there is nothing to warn of."""
        return ()


FamilyLike = str | Family | type[Family]
"""What a family can be given as: the name of a registered one, ``my_file.py:NAME``, an object, or a
class that is made without arguments."""

FAMILIES = Plugins(
    *("lyra_opt.instance_families", "family"),
    needs=("name", "problem", "version", "check", "generate"),
)
"""All families, as ``problem.name``."""


def family_names(problem: str) -> list[str]:
    """Return the names of the families of `problem`, in order, without loading any."""
    return FAMILIES.names(problem)


def find_family(problem: str, given: FamilyLike) -> Family:
    """Return a family of `problem`, however it is given.

    Raises
    ------
    UserError
        If there is no such problem, or as of `Plugins.of`.
    """
    PROBLEMS.require_known("problem", problem)
    family: Family = FAMILIES.of(given, problem)
    return family


def generate(problem: str, family: FamilyLike, *, seed: int = 0, **parameters: Any) -> Any:
    """Return one instance.

    Parameters
    ----------
    problem, family
        Such as ``reclaim`` and ``messy-dist``.
    seed
        From 0 to 2**53 - 1; has no effect on families that are not seeded.
    parameters
        The family's own, such as ``servers=520, reclaim=156``; None stands for not given.

    Raises
    ------
    UserError
        If there is no such family, or a parameter is not valid, missing or refused.
    """
    require_parameter("seed", SEED, seed)
    return find_family(problem, family).generate(parameters, seed)
