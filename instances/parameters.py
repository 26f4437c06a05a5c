"""Parameters of instance families: their rules, defaults and command-line options.

The command line is built from this module without importing any family, which keeps it fast.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from lyra_opt.core.errors import FieldError, UserError, show_value
from lyra_opt.core.nearest_names import suggestion
from lyra_opt.core.rules import Rule

LARGEST_SEED = 2**53 - 1

LONGEST_METAVAR = 12
"""Longest list of choices, in characters, that ``--help`` shows beside the name of an option."""

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_OPTION = re.compile(r"""(?<![\w"'./-])--([a-z]+(?:-[a-z]+)*)""")
"""Matches options such as ``--jobs`` in a message, except inside quoted values and paths."""


@dataclass(frozen=True, slots=True)
class ParameterRule(Rule):
    """The rule of a document field that holds a family parameter; the family checks the value."""

    def check(self, path: str, value: object) -> str | int:
        """Return the value if it is a string or an integer; raise `FieldError` otherwise."""
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise FieldError(path, value, "must be a string or an integer")
        return value

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a string or an integer."""
        return {"type": ["string", "integer"]}

    def in_words(self) -> str:
        """Return the rule as a phrase for the documentation of formats."""
        return "string or integer"


PARAMETER = ParameterRule()


@dataclass(frozen=True, kw_only=True)
class Parameter(ABC):
    """One parameter of the families of a problem, with its help text and default.

    Parameters
    ----------
    meaning
        The help text of the parameter.
    default
        The default value; None if the parameter has no default.
    metavar
        The placeholder for the value in ``--help``.
    family
        The only family that takes the parameter; empty if several families take it.
    choices
        The only valid values, if the parameter has a fixed list of them.
    """

    meaning: str
    default: Any = None
    metavar: str = "N"
    family: str = ""
    choices: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """The text for ``--help``: meaning, default, and the family if only one applies."""
        remarks = [f"family {self.family}"] if self.family else []
        remarks += [] if self.default is None else [f"default {self.default}"]
        return f"{self.meaning} ({'; '.join(remarks)})" if remarks else self.meaning

    @property
    @abstractmethod
    def rule(self) -> str:
        """The condition on valid values, such as "must be an integer from 1 to 100"."""

    @abstractmethod
    def accepts(self, value: object) -> bool:
        """Return whether `value` is valid for the parameter."""

    def parse(self, text: str) -> Any:
        """Return the value for a command-line text, which `accepts` may still reject."""
        return text


@dataclass(frozen=True, kw_only=True)
class IntegerParameter(Parameter):
    """An integer from `least` to `largest`, or a single permitted word if `word` is set."""

    least: int
    largest: int
    word: str | None = None

    @property
    def rule(self) -> str:
        """The range of valid integers, with the permitted word if there is a `word`."""
        alternative = f", or {self.word}" if self.word else ""
        return f"must be an integer from {self.least} to {self.largest}{alternative}"

    def parse(self, text: str) -> int | str:
        """Return the text as an integer, or unchanged if it is not an integer."""
        return int(text) if _INTEGER.fullmatch(text) else text

    def accepts(self, value: object) -> bool:
        """Return whether `value` is an integer in the range or the permitted word."""
        if isinstance(value, str):
            return value == self.word
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        return is_integer and self.least <= value <= self.largest  # type: ignore[operator]


@dataclass(frozen=True, kw_only=True)
class ChoiceParameter(Parameter):
    """A parameter whose value is one of several fixed words."""

    choices: tuple[str, ...]

    @property
    def help(self) -> str:
        """The text for ``--help``, which lists the choices if they do not fit the usage line."""
        said = super().help
        return f"{', '.join(self.choices)}: {said}" if self.metavar == "NAME" else said

    @property
    def rule(self) -> str:
        """The list of valid words, as a phrase for errors."""
        return f"must be one of: {', '.join(self.choices)}"

    def accepts(self, value: object) -> bool:
        """Return whether `value` is one of the choices."""
        return isinstance(value, str) and value in self.choices


@dataclass(frozen=True, kw_only=True)
class NamesParameter(Parameter):
    """A parameter whose value is a comma-separated list of distinct names."""

    rule: str = "must be names separated by commas, each once"

    def accepts(self, value: object) -> bool:
        """Return whether `value` is a comma-separated list of distinct printable names."""
        if not isinstance(value, str):
            return False
        names = value.split(",")
        return len(set(names)) == len(names) and all(name and name.isprintable() for name in names)


@dataclass(frozen=True, kw_only=True)
class FileParameter(Parameter):
    """A parameter whose value is a file path; the file is opened only when instances are made."""

    metavar: str = "FILE"
    rule: str = "must be the path of a file"

    def accepts(self, value: object) -> bool:
        """Return whether `value` is a non-empty path."""
        return isinstance(value, str | Path) and bool(str(value))


def integer(
    meaning: str, least: int, largest: int, *, absent: int | None = None, **said: Any
) -> Any:
    """Return the dataclass field that declares an `IntegerParameter`.

    Parameters
    ----------
    absent
        The value of the field if the parameter is not given and has no default.
    said
        The other attributes of the parameter, such as `default` and `family`.
    """
    parameter = IntegerParameter(meaning=meaning, least=least, largest=largest, **said)
    return _declared(parameter, absent)


def percent(meaning: str, *, least: int = 0, largest: int = 100, **said: Any) -> Any:
    """Return the dataclass field that declares an `IntegerParameter` in %."""
    return integer(meaning, least, largest, metavar="P", **said)


def choice(meaning: str, choices: tuple[str, ...], **said: Any) -> Any:
    """Return the dataclass field that declares a `ChoiceParameter`."""
    listed = "|".join(choices)
    metavar = listed if len(listed) <= LONGEST_METAVAR else "NAME"
    return _declared(ChoiceParameter(meaning=meaning, choices=choices, metavar=metavar, **said))


def names(meaning: str, **said: Any) -> Any:
    """Return the dataclass field that declares a `NamesParameter`."""
    return _declared(NamesParameter(meaning=meaning, **said))


def file(meaning: str, **said: Any) -> Any:
    """Return the dataclass field that declares a `FileParameter`."""
    return _declared(FileParameter(meaning=meaning, **said))


def _declared(parameter: Parameter, absent: Any = None) -> Any:
    default = absent if parameter.default is None else parameter.default
    return field(default=default, metadata={"parameter": parameter})


def parameters_of(table: type[Any]) -> dict[str, Parameter]:
    """Return the parameters that a dataclass declares, by field name, in order."""
    return {each.name: each.metadata["parameter"] for each in fields(table)}


SEED = IntegerParameter(
    meaning="seed of the first instance; the same seed gives the same bytes",
    least=0,
    largest=LARGEST_SEED,
    default=0,
)


def option(name: str) -> str:
    """Return the command-line option of a parameter, such as ``--load-percent``."""
    return f"--{name.replace('_', '-')}"


@contextmanager
def named_as_in_python() -> Iterator[None]:
    """Rewrite command-line options in errors as Python arguments, for calls from Python."""
    try:
        yield
    except UserError as error:
        if type(error) is not UserError:  # errors of files and fields name no options
            raise
        message = _OPTION.sub(lambda match: match[1].replace("-", "_"), str(error))
        raise UserError(message) from error.__cause__


def require_parameter(name: str, parameter: Parameter, value: object) -> None:
    """Raise `UserError`, naming option, value and rule, if a parameter value is not valid."""
    if not parameter.accepts(value):
        shown = show_value(str(value) if isinstance(value, Path) else value)
        hint = suggestion(value, parameter.choices)
        raise UserError(f"{option(name)} is {shown}: {parameter.rule}{hint}")
