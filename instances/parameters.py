"""What an instance family can be asked for: parameters, their rules and how they are typed.

Light on purpose: the command line is built from it without importing any family.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lyra_opt.core.errors import UserError, show_value

if TYPE_CHECKING:
    from collections.abc import Mapping

LARGEST_SEED = 2**53 - 1

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


class Parameter(Protocol):
    """One parameter of the families of a problem."""

    @property
    def help(self) -> str:
        """What it means, for ``--help``."""

    @property
    def metavar(self) -> str:
        """What its value is called in ``--help``."""

    @property
    def default(self) -> Any:
        """Its value where none is given; None if there is no such value."""

    @property
    def rule(self) -> str:
        """What holds for every valid value, such as "must be an integer from 1 to 100"."""

    def parse(self, text: str) -> Any:
        """Return the value that `text` stands for, which `accepts` may still refuse."""

    def accepts(self, value: object) -> bool:
        """Return whether `value` keeps the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegerParameter:
    """An integer from `least` to `largest`, or the one `word` that is allowed beside."""

    help: str
    least: int
    largest: int
    word: str | None = None
    default: int | None = None
    metavar: str = "N"

    @property
    def rule(self) -> str:
        """See `Parameter`."""
        alternative = f", or {self.word}" if self.word else ""
        return f"must be an integer from {self.least} to {self.largest}{alternative}"

    def parse(self, text: str) -> int | str:
        """See `Parameter`."""
        return int(text) if _INTEGER.fullmatch(text) else text

    def accepts(self, value: object) -> bool:
        """See `Parameter`."""
        if isinstance(value, str):
            return value == self.word
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return is_integer and self.least <= value <= self.largest  # type: ignore[operator]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceParameter:
    """One of a few words."""

    help: str
    choices: tuple[str, ...]
    default: str | None = None

    @property
    def metavar(self) -> str:
        """See `Parameter`."""
        return "|".join(self.choices)

    @property
    def rule(self) -> str:
        """See `Parameter`."""
        return f"must be one of: {', '.join(self.choices)}"

    def parse(self, text: str) -> str:
        """See `Parameter`."""
        return text

    def accepts(self, value: object) -> bool:
        """See `Parameter`."""
        return isinstance(value, str) and value in self.choices


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesParameter:
    """Names, separated by commas."""

    help: str
    default: str
    metavar: str = "NAME,..."
    rule: str = "must be names separated by commas, each once"

    def parse(self, text: str) -> str:
        """See `Parameter`."""
        return text

    def accepts(self, value: object) -> bool:
        """See `Parameter`."""
        if not isinstance(value, str):
            return False
        names = value.split(",")
        return len(set(names)) == len(names) and all(name and name.isprintable() for name in names)


@dataclass(frozen=True, slots=True, kw_only=True)
class FileParameter:
    """The path of a file; whether it can be read shows when it is."""

    help: str
    default: str | None = None
    metavar: str = "FILE"
    rule: str = "must be the path of a file"

    def parse(self, text: str) -> str:
        """See `Parameter`."""
        return text

    def accepts(self, value: object) -> bool:
        """See `Parameter`."""
        return isinstance(value, str | Path) and bool(str(value))


SEED = IntegerParameter(
    help="seed of the first instance; the same seed gives the same bytes",
    least=0,
    largest=LARGEST_SEED,
    default=0,
)


def option(name: str) -> str:
    """Return the option that sets parameter `name` on the command line."""
    return f"--{name.replace('_', '-')}"


def require_parameter(name: str, parameter: Parameter, value: object) -> None:
    """Check one value; raise `UserError` naming option, value and rule."""
    if not parameter.accepts(value):
        shown = show_value(str(value) if isinstance(value, Path) else value)
        raise UserError(f"{option(name)} is {shown}: {parameter.rule}")


def given_parameters(
    values: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
    *,
    family: str,
    required: tuple[str, ...],
    optional: tuple[str, ...],
    refusals: Mapping[str, str],
) -> dict[str, Any]:
    """Return the values that a family takes, checked; None stands for a value not given.

    Parameters
    ----------
    values
        What was asked for, by name.
    parameters
        All parameters of the families of the problem.
    family
        The family's name, for errors.
    required, optional
        The parameters that it takes.
    refusals
        Why it refuses others, where there is more to say than that it has no use for them.

    Returns
    -------
    dict
        Each given value, and the defaults of the others that the family takes.

    Raises
    ------
    UserError
        If a value breaks its rule, a required one is missing, or the family does not take one
        that is given (other than its default).
    """
    given = {name: value for name, value in values.items() if value is not None}
    for name, value in given.items():
        if name not in parameters:
            known = ", ".join(parameters)
            raise UserError(f"{name} is no parameter of an instance family; known are: {known}")
        require_parameter(name, parameters[name], value)
        if name not in required + optional and value != parameters[name].default:
            reason = refusals.get(name, "the family has no use for it")
            raise UserError(f"{option(name)} is refused by family {family}: {reason}")
    for name in required:
        if name not in given:
            raise UserError(f"{option(name)} is required by family {family}")
    return {
        name: given.get(name, parameters[name].default)
        for name in required + optional
        if given.get(name, parameters[name].default) is not None
    }
