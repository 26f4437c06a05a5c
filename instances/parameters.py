"""What an instance family can be asked for: parameters, their rules and how they are typed.

Light on purpose: the command line is built from it without importing any family.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError, UserError, show_value
from lyra_opt.core.rules import Rule

if TYPE_CHECKING:
    from collections.abc import Iterator

LARGEST_SEED = 2**53 - 1

LONGEST_METAVAR = 32
"""Of a usage line that fits 80 columns."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_OPTION = re.compile(r"""(?<![\w"'./-])--([a-z]+(?:-[a-z]+)*)""")
"""In a message, but not in a value or a path that it shows."""


@dataclass(frozen=True, slots=True)
class ParameterRule(Rule):
    """The rule of a field that holds what a family is given; families judge it themselves."""

    def check(self, path: str, value: object) -> str | int:
        """See `Rule`."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise FieldError(path, value, "must be a string or an integer")
        return value

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"type": ["string", "integer"]}

    def in_words(self) -> str:
        """See `Rule`."""
        return "string or integer"


PARAMETER = ParameterRule()


@dataclass(frozen=True, kw_only=True)
class Parameter(ABC):
    """One parameter of the families of a problem.

    Parameters
    ----------
    meaning
        For ``--help``.
    default
        None without one.
    metavar
        What stands for a value in ``--help``.
    family
        The one family that takes it; empty where several do.
    """

    meaning: str
    default: Any = None
    metavar: str = "N"
    family: str = ""

    @property
    def help(self) -> str:
        """What it means, for ``--help``, with the one family that takes it and its default."""
        remarks = [f"family {self.family}"] if self.family else []
        remarks += [] if self.default is None else [f"default {self.default}"]
        return f"{self.meaning} ({'; '.join(remarks)})" if remarks else self.meaning

    @property
    @abstractmethod
    def rule(self) -> str:
        """What holds for every valid value, such as "must be an integer from 1 to 100"."""

    @abstractmethod
    def accepts(self, value: object) -> bool:
        """Return whether `value` keeps the rule."""

    def parse(self, text: str) -> Any:
        """Return the value that `text` stands for, which `accepts` may still refuse."""
        return text


@dataclass(frozen=True, kw_only=True)
class IntegerParameter(Parameter):
    """An integer from `least` to `largest`, or the one `word` that is allowed beside."""

    least: int
    largest: int
    word: str | None = None

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


@dataclass(frozen=True, kw_only=True)
class ChoiceParameter(Parameter):
    """One of a few words."""

    choices: tuple[str, ...]

    @property
    def help(self) -> str:
        """See `Parameter`."""
        said = super().help
        return f"{', '.join(self.choices)}: {said}" if self.metavar == "NAME" else said

    @property
    def rule(self) -> str:
        """See `Parameter`."""
        return f"must be one of: {', '.join(self.choices)}"

    def accepts(self, value: object) -> bool:
        """See `Parameter`."""
        return isinstance(value, str) and value in self.choices


@dataclass(frozen=True, kw_only=True)
class NamesParameter(Parameter):
    """Names, separated by commas."""

    rule: str = "must be names separated by commas, each once"

    def accepts(self, value: object) -> bool:
        """See `Parameter`."""
        if not isinstance(value, str):
            return False
        names = value.split(",")
        return len(set(names)) == len(names) and all(name and name.isprintable() for name in names)


@dataclass(frozen=True, kw_only=True)
class FileParameter(Parameter):
    """The path of a file; whether it can be read shows when it is."""

    metavar: str = "FILE"
    rule: str = "must be the path of a file"

    def accepts(self, value: object) -> bool:
        """See `Parameter`."""
        return isinstance(value, str | Path) and bool(str(value))


def integer(
    meaning: str, least: int, largest: int, *, absent: int | None = None, **said: Any
) -> Any:
    """Return the field of a dataclass of parameters that stands for an `IntegerParameter`.

    Parameters
    ----------
    absent
        The field's value where the parameter is not given and has no default.
    said
        The other fields of the parameter.
    """
    parameter = IntegerParameter(meaning=meaning, least=least, largest=largest, **said)
    return _declared(parameter, absent)


def choice(meaning: str, choices: tuple[str, ...], **said: Any) -> Any:
    """Return the field that stands for a `ChoiceParameter`."""
    listed = "|".join(choices)
    metavar = listed if len(listed) <= LONGEST_METAVAR else "NAME"
    return _declared(ChoiceParameter(meaning=meaning, choices=choices, metavar=metavar, **said))


def names(meaning: str, **said: Any) -> Any:
    """Return the field that stands for a `NamesParameter`."""
    return _declared(NamesParameter(meaning=meaning, **said))


def file(meaning: str, **said: Any) -> Any:
    """Return the field that stands for a `FileParameter`."""
    return _declared(FileParameter(meaning=meaning, **said))


def _declared(parameter: Parameter, absent: Any = None) -> Any:
    default = absent if parameter.default is None else parameter.default
    return field(default=default, metadata={"parameter": parameter})


def parameters_of(table: type[Any]) -> dict[str, Parameter]:
    """Return the parameters that a dataclass declares, by name, in order."""
    return {each.name: each.metadata["parameter"] for each in fields(table)}


SEED = IntegerParameter(
    meaning="seed of the first instance; the same seed gives the same bytes",
    least=0,
    largest=LARGEST_SEED,
    default=0,
)


def option(name: str) -> str:
    """Return the option that sets parameter `name` on the command line."""
    return f"--{name.replace('_', '-')}"


@contextmanager
def named_as_in_python() -> Iterator[None]:
    """Let errors of families, which name options of the command line, name arguments instead."""
    try:
        yield
    except UserError as error:
        if type(error) is not UserError:  # it is of a file or a field
            raise
        message = _OPTION.sub(lambda match: match[1].replace("-", "_"), str(error))
        raise UserError(message) from error.__cause__


def require_parameter(name: str, parameter: Parameter, value: object) -> None:
    """Check one value; raise `UserError` naming option, value and rule."""
    if not parameter.accepts(value):
        shown = show_value(str(value) if isinstance(value, Path) else value)
        raise UserError(f"{option(name)} is {shown}: {parameter.rule}")
