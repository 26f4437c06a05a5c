"""Instance families: their interface, their common base class, and their registry.

A family is a seeded and versioned distribution of instances of one problem: the same
parameters and seed give the same instance, on any machine. Families are found by name through the
entry-point group ``lyra_opt.instance_families``, so other packages can add families.

>>> from lyra_opt.instances.family import family_names, generate
>>> "messy-dist" in family_names("reclaim")
True
>>> generate(problem="reclaim", family="decoy", reclaim=2).name
'decoy-v1-k2'
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Protocol

from lyra_opt.core.errors import UserError
from lyra_opt.core.nearest_names import meant
from lyra_opt.core.plugins import PROBLEMS, Plugins
from lyra_opt.instances.parameters import SEED, option, parameters_of, require_parameter
from lyra_opt.instances.randomness import IntegerStream


class Family(Protocol):
    """The interface of an instance family, which generates instances of one problem."""

    @property
    def name(self) -> str:
        """The name of the family on the command line, such as ``messy-dist``."""

    @property
    def problem(self) -> str:
        """The name of the problem whose instances the family generates, such as ``reclaim``."""

    @property
    def version(self) -> int:
        """The version of the generator, raised whenever a seed gives another instance."""

    @property
    def summary(self) -> str:
        """One line for ``--help`` that describes the instances of the family."""

    def check(self, parameters: Mapping[str, Any]) -> object:
        """Raise `UserError`, naming option, value and rule, if `parameters` are not valid."""

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether different seeds give different instances for these parameters."""

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Any:
        """Return the instance for a seed; `UserError` if the parameters are not valid."""

    def known_optimum(self, parameters: Mapping[str, Any]) -> tuple[Any, int] | None:
        """Return a solution that is optimal by construction, with its objective, or None."""

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:
        """Return remarks on the instances for the user, such as which input was left out."""


@dataclass(frozen=True)
class ParameterisedFamily(ABC):
    """Base class of families whose parameters are the fields of a dataclass; implements `Family`.

    Parameters
    ----------
    name, version, summary
        The attributes of these names in `Family`.
    is_drawn
        Whether instances with the same parameters and different seeds differ.
    """

    name: str
    _: KW_ONLY
    version: int
    summary: str
    is_drawn: bool = True

    problem: ClassVar[str]
    parameters: ClassVar[type[Any]]
    """A dataclass whose fields were made by functions of `lyra_opt.instances.parameters`."""
    required: ClassVar[tuple[str, ...]] = ("jobs",)
    optional: ClassVar[tuple[str, ...]] = ()
    refusals: ClassVar[Mapping[str, str]] = {}
    """Reasons shown when the family refuses a parameter, by parameter name."""

    @abstractmethod
    def generate(self, parameters: Mapping[str, Any], seed: int) -> Any:
        """Return the instance for `parameters` and `seed`."""

    def _require(self, parameters: Any) -> None:  # noqa: B027 - most need none
        """Raise `UserError` if a combination of valid parameters has no instance."""

    def check(self, parameters: Mapping[str, Any]) -> Any:
        """Return the parameters as the family's dataclass; a value of None counts as not given.

        Raises
        ------
        UserError
            If a value breaks its rule, if a required parameter is missing, or if a parameter that
            the family does not accept has another value than its default.
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
                reason = self.refusals.get(name, "the family does not use this parameter")
                raise UserError(f"{option(name)} is refused by family {self.name}: {reason}")
        missing = [option(name) for name in self.required if name not in given]
        if missing:
            verb = "is" if len(missing) == 1 else "are"
            raise UserError(f"{' and '.join(missing)} {verb} required by family {self.name}")
        values = {name: given.get(name, known[name].default) for name in taken}
        checked = self.parameters(
            **{name: value for name, value in values.items() if value is not None}
        )
        self._require(checked)
        return checked

    def is_seeded(self, parameters: Mapping[str, Any]) -> bool:
        """Return whether different seeds give different instances, after checking `parameters`."""
        self.check(parameters)
        return self.is_drawn

    def _stream(self, purpose: str, seed: int, **size: int) -> IntegerStream:
        """Return the random stream for one purpose, such as ``jobs``, and one instance size."""
        return IntegerStream(
            family=self.name, version=self.version, purpose=purpose, seed=seed, **size
        )

    def known_optimum(
        self,
        parameters: Mapping[str, Any],  # noqa: ARG002
    ) -> tuple[Any, int] | None:
        """Return None, because the optimum is not known by construction."""
        return None

    def remarks(self, parameters: Mapping[str, Any]) -> Sequence[str]:  # noqa: ARG002
        """Return an empty tuple, because the family has no remarks for the user."""
        return ()


FamilyLike = str | Family | type[Family]
"""A way to specify a family: a registered name, ``my_file.py:NAME``, an object, or a class whose
constructor takes no arguments."""

FAMILIES = Plugins(
    *("lyra_opt.instance_families", "family"),
    needs=("name", "problem", "version", "check", "generate"),
)
"""The registry of families, with keys ``problem.name``."""


def family_names(problem: str) -> list[str]:
    """Return the names of the families of `problem`, in order, without importing the families."""
    return FAMILIES.names(problem)


def family_summaries(problem: str) -> dict[str, str]:
    """Return the summary of each family of `problem`, by name, in order."""
    return {name: find_family(problem, name).summary for name in family_names(problem)}


def find_family(problem: str, given: FamilyLike) -> Family:
    """Return the family of `problem` that a name, an object or a class specifies.

    Raises
    ------
    UserError
        If the problem or the family is unknown, or the family lacks a required attribute.
    """
    PROBLEMS.require_known("problem", problem)
    family: Family = FAMILIES.of(given, problem)
    return family


def generate(problem: str, family: FamilyLike, *, seed: int = 0, **parameters: Any) -> Any:
    """Return the instance of a family for one seed and the given parameters.

    Parameters
    ----------
    problem, family
        For example ``reclaim`` and ``messy-dist``.
    seed
        From 0 to 2**53 - 1; has no effect on families that are not seeded.
    parameters
        Parameters of the family, such as ``servers=520, reclaim=156``; None counts as not given.

    Raises
    ------
    UserError
        If the family is unknown, or a parameter is not valid, missing or refused.
    """
    require_parameter("seed", SEED, seed)
    return find_family(problem, family).generate(parameters, seed)
