"""What may hold for the value of a field: one object a rule, which checks, describes and writes.

`lyra_opt.core.fields.key` gives each field of a dataclass its rule; checks of values, JSON schemas,
tables for people and Hypothesis strategies come from it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import join_path, unknown_key
from lyra_opt.core.errors import FieldError
from lyra_opt.core.foreign import as_list, as_python, is_frame
from lyra_opt.core.frozen import FrozenDict

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from enum import StrEnum

LARGEST_INTEGER = 2**53 - 1  # the integers that every JSON reader carries exactly


def require_integer(
    field: str, value: object, *, minimum: int, maximum: int = LARGEST_INTEGER
) -> int:
    """Return `value` if it is an integer from `minimum` to `maximum`; booleans are none."""
    if type(value) is int and minimum <= value <= maximum:  # nearly always, and quick
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise FieldError(field, value, f"must be an integer of at least {minimum}")
    if value > maximum:
        power = " (2**53 - 1)" if maximum == LARGEST_INTEGER else ""
        raise FieldError(field, value, f"must be at most {maximum}{power}")
    return value


def require_sum(entries: Iterable[tuple[int, object]], path: str, *, most: int, rule: str) -> None:
    """Check that the amounts of the entries of a list come to at most `most` together.

    Parameters
    ----------
    entries
        The amount of each, and the value of the field that it follows from.
    path
        Of that field, with ``{}`` for the position, such as ``servers[{}].gpus``.
    rule
        What the entries up to the first that is too much do not keep.
    """
    total = 0
    for position, (amount, value) in enumerate(entries):
        total += amount
        if total > most:
            raise FieldError(path.format(position), value, rule)


def require_number(field: str, value: object, *, minimum: float, above: bool = False) -> float:
    """Return `value` as a float if it is finite and at least (or `above`) `minimum`."""
    if type(value) is float and minimum < value < math.inf:  # nearly always, and quick
        return value
    rule = "must be a finite number"
    if minimum > -math.inf:
        rule += f" {'above' if above else 'of at least'} {minimum:g}"
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise FieldError(field, value, rule)
    try:
        number = float(value)
    except OverflowError:
        raise FieldError(field, value, rule) from None
    if not math.isfinite(number) or number < minimum or (above and number == minimum):
        raise FieldError(field, value, rule)
    return number


def require_text(field: str, value: object) -> str:
    """Return `value` if it is a string that is not empty and holds no lone surrogate."""
    if not isinstance(value, str) or not value:
        raise FieldError(field, value, "must be a non-empty string")
    if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
        raise FieldError(field, value, "must be Unicode text without lone surrogates")
    return value


def require_flag(field: str, value: object) -> bool:
    """Return `value` if it is true or false."""
    if not isinstance(value, bool):
        raise FieldError(field, value, "must be true or false")
    return value


def require_choice(field: str, value: object, choices: Collection[str]) -> str:
    """Return `value` if it is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        raise FieldError(field, value, f"must be one of: {', '.join(sorted(choices))}")
    return value


def require_choices(field: str, values: Iterable[object], choices: Iterable[str]) -> None:
    """Check that each entry of a list is one of `choices`, which may have repetitions."""
    known = dict.fromkeys(choices)
    for position, value in enumerate(values):
        require_choice(f"{field}[{position}]", value, known)


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Rule:
    """What holds for the values of a field.

    A value that was checked passes again as it is, so that objects can be made from objects.
    Scalars of NumPy and pandas are kept as Python's own; see `lyra_opt.core.foreign.as_python`.
    """

    __slots__ = ()

    dtype = "object"
    """Of a column of such values in a data frame."""

    def check(self, path: str, value: Any) -> Any:
        """Return the value, made what the program works with; `FieldError` if it is wrong."""
        raise NotImplementedError

    def write(self, value: Any) -> Any:
        """Return the value as a document holds it, which `check` reads again."""
        return value

    def rows_of(self, frame: Any) -> Any:
        """Return the values that the rows of a data frame are; the frame itself if they are not."""
        return frame

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the values."""
        raise NotImplementedError

    def in_words(self) -> str:
        """Return what values there are, in a few words."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Integer(Rule):
    """An integer from `least` to `most`."""

    dtype = "int64"

    least: int = 0
    most: int = LARGEST_INTEGER

    def check(self, path: str, value: Any) -> int:
        """See `Rule`."""
        if type(value) is int and self.least <= value <= self.most:  # nearly always, and quick
            return value
        return require_integer(path, as_python(value), minimum=self.least, maximum=self.most)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"type": "integer", "minimum": self.least, "maximum": self.most}

    def in_words(self) -> str:
        """See `Rule`."""
        if self.least == self.most:
            return str(self.least)
        most = "" if self.most >= LARGEST_INTEGER else f", at most {self.most:,}"
        return f"integer of at least {self.least}{most}"


@dataclass(frozen=True, slots=True)
class Number(Rule):
    """A finite number of at least, or above, `least`, and at most `most`.

    It is kept as a float, so that 300 and 300.0 are one content, unless it is kept `as_given`.
    """

    dtype = "float64"

    least: float = 0.0
    most: float = math.inf
    above: bool = False
    as_given: bool = False

    def check(self, path: str, value: Any) -> float:
        """See `Rule`."""
        if type(value) is not float:
            value = as_python(value)
        elif (
            math.isfinite(value)
            and self.least <= value <= self.most
            and not (self.above and value == self.least)
        ):
            return value  # nearly always, and quick
        number = require_number(path, value, minimum=self.least, above=self.above)
        if number > self.most:
            raise FieldError(path, value, f"must be at most {self._shown_most()}")
        return value if self.as_given else number

    def _shown_most(self) -> str:
        if self.most == LARGEST_INTEGER:
            return f"{LARGEST_INTEGER} (2**53 - 1)"
        return f"{self.most:g}"

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        bounds: dict[str, float] = {}
        if self.least > -math.inf:
            bounds["exclusiveMinimum" if self.above else "minimum"] = self.least
        if self.most < math.inf:
            bounds["maximum"] = self.most
        return {"type": "number", **bounds}

    def in_words(self) -> str:
        """See `Rule`."""
        words = "number"
        if self.least > -math.inf:
            words += f" {'above' if self.above else 'of at least'} {self.least:g}"
        return words + (f", at most {self._shown_most()}" if self.most < math.inf else "")


ANY_NUMBER = Number(-math.inf, as_given=True)
"""Any finite number, as it is."""


@dataclass(frozen=True, slots=True)
class Text(Rule):
    """A string that is not empty; one of `choices` if there are any."""

    choices: tuple[str, ...] = ()

    def check(self, path: str, value: Any) -> str:
        """See `Rule`."""
        if type(value) is not str:
            value = as_python(value)
        elif value and not self.choices and value.isascii():  # nearly always, and quick
            return value
        if self.choices:
            return require_choice(path, value, self.choices)
        return require_text(path, value)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"enum": list(self.choices)} if self.choices else {"type": "string", "minLength": 1}

    def in_words(self) -> str:
        """See `Rule`."""
        return " or ".join(f'"{choice}"' for choice in self.choices) or "text"


_TEXT = Text()


@dataclass(frozen=True, slots=True)
class Choice(Rule):
    """A member of an enumeration of strings, or its string."""

    of: type[StrEnum]

    def check(self, path: str, value: Any) -> StrEnum:
        """See `Rule`."""
        if type(value) is self.of:
            return value
        return self.of(require_choice(path, as_python(value), [str(each) for each in self.of]))

    def write(self, value: Any) -> str:
        """See `Rule`."""
        return str(value)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"enum": [str(member) for member in self.of]}

    def in_words(self) -> str:
        """See `Rule`."""
        return " or ".join(f'"{member}"' for member in self.of)


@dataclass(frozen=True, slots=True)
class Flag(Rule):
    """True or false."""

    dtype = "bool"

    def check(self, path: str, value: Any) -> bool:
        """See `Rule`."""
        return value if value is True or value is False else require_flag(path, as_python(value))

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"type": "boolean"}

    def in_words(self) -> str:
        """See `Rule`."""
        return "true or false"


@dataclass(frozen=True, slots=True)
class OrNull(Rule):
    """A value that keeps a rule, or null, which means what `meaning` says."""

    rule: Rule
    meaning: str = "none"

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """See `Rule`."""
        return {"int64": "Int64", "bool": "boolean"}.get(self.rule.dtype, self.rule.dtype)

    def check(self, path: str, value: Any) -> Any:
        """See `Rule`."""
        if value is None:
            return None
        try:
            return self.rule.check(path, value)
        except FieldError as error:
            if as_python(value) is None:
                return None
            if error.field != path or not isinstance(self.rule, Number | Integer):
                raise
            rule = f"{error.rule}, or null for {self.meaning}"
            raise FieldError(path, error.value, rule) from None

    def write(self, value: Any) -> Any:
        """See `Rule`."""
        return None if value is None else self.rule.write(value)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"anyOf": [self.rule.schema(), {"type": "null"}]}

    def in_words(self) -> str:
        """See `Rule`."""
        return f"{self.rule.in_words()}, or null for {self.meaning}"


@contextmanager
def located(path: str) -> Iterator[None]:
    """Name in errors of a field the path of what it is a field of."""
    try:
        yield
    except FieldError as error:
        raise error.inside(path) from None


def _first_repeated(values: Sequence[Any]) -> tuple[int, Any]:
    """Return the position and value of the first that is there already; there is one."""
    seen: set[Any] = set()
    return next(
        (position, value)
        for position, value in enumerate(values)
        if value in seen or seen.add(value)  # type: ignore[func-returns-value]
    )


@dataclass(frozen=True, slots=True)
class ListOf(Rule):
    """A list of values that keep a rule.

    Parameters
    ----------
    rule
        That of each entry.
    distinct
        Whether no entry may occur twice.
    least
        Fewest entries.
    unique
        A field of the entries that no two may have in common; empty for none.
    parent
        What a data frame of the entries calls the column that names what they belong to, for lists
        inside of lists.
    """

    rule: Rule
    distinct: bool = False
    least: int = 1
    unique: str = ""
    parent: str = ""

    def check(self, path: str, value: Any) -> tuple[Any, ...]:
        """See `Rule`."""
        if type(value) is not tuple and not isinstance(value, list | tuple):
            value = self.rule.rows_of(value) if is_frame(value) else as_list(value)
            if not isinstance(value, list):
                raise FieldError(path, value, "must be a list")
        if len(value) < self.least:
            least = "one entry" if self.least == 1 else f"{self.least} entries"
            raise FieldError(path, value, f"must have at least {least}")
        check = self.rule.check
        try:
            entries = tuple([check("", each) for each in value])
        except FieldError:
            for position, each in enumerate(value):
                with located(f"{path}[{position}]"):
                    check("", each)
            raise
        if self.distinct and len(set(entries)) < len(entries):
            position, entry = _first_repeated(entries)
            raise FieldError(f"{path}[{position}]", entry, "must not occur twice")
        if self.unique and len(entries) > 1:
            names = list(map(attrgetter(self.unique), entries))
            if len(set(names)) < len(names):
                position, name = _first_repeated(names)
                raise FieldError(f"{path}[{position}].{self.unique}", name, "must be unique")
        return entries

    def write(self, value: Any) -> list[Any]:
        """See `Rule`."""
        if type(self.rule).write is Rule.write:
            return list(value)
        return [self.rule.write(each) for each in value]

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        least = {"minItems": self.least} if self.least else {}
        unique = {"uniqueItems": True} if self.distinct else {}
        return {"type": "array", "items": self.rule.schema(), **least, **unique}

    def in_words(self) -> str:
        """See `Rule`."""
        return f"list of: {self.rule.in_words()}"


@dataclass(frozen=True, slots=True)
class Entry(Rule):
    """A list of as many values as there are rules, each of which keeps its own."""

    rules: tuple[Rule, ...]
    what: str

    def check(self, path: str, value: Any) -> tuple[Any, ...]:
        """See `Rule`."""
        value = as_list(value)
        if not isinstance(value, list | tuple) or len(value) != len(self.rules):
            raise FieldError(path, value, f"must be a {self.what}")
        return tuple(
            rule.check(f"{path}[{place}]", each)
            for place, (rule, each) in enumerate(zip(self.rules, value, strict=True))
        )

    def write(self, value: Any) -> list[Any]:
        """See `Rule`."""
        return [rule.write(each) for rule, each in zip(self.rules, value, strict=True)]

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        length = len(self.rules)
        items = [rule.schema() for rule in self.rules]
        return {"type": "array", "prefixItems": items, "minItems": length, "maxItems": length}

    def in_words(self) -> str:
        """See `Rule`."""
        return self.what


@dataclass(frozen=True, slots=True)
class OneOrList(Rule):
    """A value that keeps a rule, or a list of such values, none of them twice."""

    rule: Rule

    def check(self, path: str, value: Any) -> tuple[Any, ...]:
        """See `Rule`."""
        value = as_list(value)
        if isinstance(value, list | tuple):
            return ListOf(self.rule, distinct=True).check(path, value)
        return (self.rule.check(path, value),)

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"anyOf": [self.rule.schema(), ListOf(self.rule, distinct=True).schema()]}

    def in_words(self) -> str:
        """See `Rule`."""
        return f"{self.rule.in_words()}, or list of them"


@dataclass(frozen=True, slots=True)
class Seeds(Rule):
    """A number of seeds from 0 on, at most `most`, or a list of them."""

    most: int

    def check(self, path: str, value: Any) -> tuple[int, ...]:
        """See `Rule`."""
        value = as_list(value)
        if isinstance(value, list | tuple):
            return ListOf(Integer(), distinct=True).check(path, value)
        return tuple(range(Integer(1, self.most).check(path, value)))

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        listed = ListOf(Integer(), distinct=True)
        return {"anyOf": [Integer(1, self.most).schema(), listed.schema()]}

    def in_words(self) -> str:
        """See `Rule`."""
        return "number of seeds from 0 on, or list of them"


@dataclass(frozen=True, slots=True)
class Line(Rule):
    """Text on one line, for titles and pages, which cannot show control characters."""

    def check(self, path: str, value: Any) -> str:
        """See `Rule`."""
        text = require_text(path, as_python(value))
        if not text.isprintable():
            raise FieldError(path, text, "must be printable text on one line")
        return text

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return Text().schema()

    def in_words(self) -> str:
        """See `Rule`."""
        return "text"


@dataclass(frozen=True, slots=True)
class Name(Rule):
    """A name that is fit for a folder."""

    def check(self, path: str, value: Any) -> str:
        """See `Rule`."""
        name = require_text(path, as_python(value))
        if not NAME.fullmatch(name):
            raise FieldError(
                path,
                name,
                "must be 1 to 100 letters, digits, '.', '_' or '-', the first a letter or digit",
            )
        return name

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {"type": "string", "pattern": f"^{NAME.pattern}$"}

    def in_words(self) -> str:
        """See `Rule`."""
        return "text"


def _with_texts_as_names(path: str, given: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(_TEXT.check(path, name)): value for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class Named(Rule):
    """An object with names as keys, and values that keep a rule.

    Parameters
    ----------
    rule
        That of each value.
    least
        Fewest names.
    names
        All that there may be, which are then kept in this order; empty for any.
    """

    rule: Rule
    least: int = 0
    names: tuple[str, ...] = ()

    def check(self, path: str, value: Any) -> FrozenDict[str, Any]:
        """See `Rule`."""
        if type(value) is not dict and not isinstance(value, Mapping):
            raise FieldError(path, value, "must be an object")
        if len(value) < self.least:
            raise FieldError(path, value, "must have at least one entry")
        check = self.rule.check
        try:
            checked = {name: check("", each) for name, each in value.items()}
        except FieldError:
            for name, each in value.items():
                with located(join_path(path, str(name))):
                    check("", each)
            raise
        for name in checked:
            if type(name) is not str:
                return self.check(path, _with_texts_as_names(path, value))
            if not name or not name.isascii():
                require_text(path, name)
        if self.names:
            for name in checked:
                if name not in self.names:
                    rule = unknown_key(name, self.names)
                    raise FieldError(join_path(path, name), value[name], rule)
            checked = {name: checked[name] for name in self.names if name in checked}
        return FrozenDict(checked)

    def write(self, value: Any) -> dict[str, Any]:
        """See `Rule`."""
        if type(self.rule).write is Rule.write:
            return dict(value)
        return {name: self.rule.write(each) for name, each in value.items()}

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        least = {"minProperties": self.least} if self.least else {}
        if self.names:
            properties = {name: self.rule.schema() for name in self.names}
            names = {"additionalProperties": False, "properties": properties}
        else:
            names = {"propertyNames": {"minLength": 1}, "additionalProperties": self.rule.schema()}
        return {"type": "object", **names, **least}

    def in_words(self) -> str:
        """See `Rule`."""
        names = f" ({', '.join(self.names)})" if self.names else ""
        return f"table by name{names} of: {self.rule.in_words()}"


@dataclass(frozen=True, slots=True)
class Anything(Rule):
    """A value whose rule is that of what takes it."""

    def check(self, path: str, value: Any) -> Any:  # noqa: ARG002
        """See `Rule`."""
        return tuple(value) if isinstance(value, list) else value

    def schema(self) -> dict[str, Any]:
        """See `Rule`."""
        return {}

    def in_words(self) -> str:
        """See `Rule`."""
        return "any value"
