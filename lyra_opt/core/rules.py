"""Rules for the values of fields: each rule is an object that checks, writes and describes values.

`lyra_opt.core.fields.key` gives each field of a dataclass its rule. Checks of values, JSON schemas,
and tables of keys for users are derived from the rules.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from operator import attrgetter
from typing import Any

from lyra_opt.core.documents import join_path, unknown_key
from lyra_opt.core.errors import FieldError
from lyra_opt.core.foreign import as_list, as_python, is_frame
from lyra_opt.core.frozen import FrozenDict
from lyra_opt.core.nearest_names import one_of

LARGEST_INTEGER = 2**53 - 1  # JSON readers that use doubles represent larger integers inexactly


def require_integer(
    field: str, value: object, *, minimum: int, maximum: float = LARGEST_INTEGER
) -> int:
    """Return `value` if it is an integer from `minimum` to `maximum`; booleans are refused."""
    if type(value) is int and minimum <= value <= maximum:  # the common case, kept fast
        return value
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        raise FieldError(field, value, f"must be an integer of at least {minimum}")
    if value > maximum:
        power = " (2**53 - 1)" if maximum == LARGEST_INTEGER else ""
        raise FieldError(field, value, f"must be at most {maximum}{power}")
    return value


def require_sum(entries: Iterable[tuple[int, object]], path: str, *, most: int, rule: str) -> None:
    """Raise `FieldError` if the sum of the amounts in `entries` exceeds `most`.

    Parameters
    ----------
    entries
        The amount of each entry, and the value of the field that determines it.
    path
        The path of that field, with ``{}`` for the position, such as ``servers[{}].gpus``.
    rule
        The rule for the message, which names the entry at which the sum exceeds `most`.
    """
    total = 0
    for position, (amount, value) in enumerate(entries):
        total += amount
        if total > most:
            raise FieldError(path.format(position), value, rule)


def require_number(
    field: str, value: object, *, minimum: float, above: bool = False, maximum: float = math.inf
) -> float:
    """Return a finite value from `minimum` (greater than it if `above`) to `maximum` as a float."""
    if type(value) is float and minimum < value < maximum:  # the common case, kept fast
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
    if number > maximum:
        raise FieldError(field, value, f"must be at most {_shown(maximum)}")
    return number


def _shown(most: float) -> str:
    return f"{LARGEST_INTEGER} (2**53 - 1)" if most == LARGEST_INTEGER else f"{most:g}"


def require_text(field: str, value: object) -> str:
    """Return `value` if it is a non-empty string without lone surrogates."""
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
        raise FieldError(field, value, one_of(value, sorted(choices)))
    return value


def require_choices(field: str, values: Iterable[object], choices: Iterable[str]) -> None:
    """Check that each entry of a list is one of `choices`."""
    known = dict.fromkeys(choices)
    for position, value in enumerate(values):
        require_choice(f"{field}[{position}]", value, known)


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Rule:
    """Base class for rules, which check, convert and describe the values of a field.

    A rule accepts a value that it has checked before, so objects can be built from parts of others.
    Scalars of NumPy and pandas become Python scalars; see `lyra_opt.core.foreign.as_python`.
    """

    __slots__ = ()

    dtype = "object"
    """The pandas type of a column with such values."""

    def check(self, path: str, value: Any) -> Any:
        """Return the value as the program uses it; raise `FieldError` if it breaks the rule."""
        raise NotImplementedError

    def write(self, value: Any) -> Any:
        """Return the value in the form for JSON files, which `check` converts back."""
        return value

    def rows_of(self, frame: Any) -> Any:
        """Convert a data frame to a list of values; by default return the frame itself."""
        return frame

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the values that the rule accepts."""
        raise NotImplementedError

    def in_words(self) -> str:
        """Return a short description of the values, such as "integer of at least 1"."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class Integer(Rule):
    """The rule for an integer from `least` to `most`, which can be infinite."""

    dtype = "int64"

    least: int = 0
    most: float = LARGEST_INTEGER

    def check(self, path: str, value: Any) -> int:
        """Return the value as an int from `least` to `most`."""
        if type(value) is int and self.least <= value <= self.most:  # the common case, kept fast
            return value
        return require_integer(path, as_python(value), minimum=self.least, maximum=self.most)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of an integer with its range."""
        most = {} if self.most == math.inf else {"maximum": self.most}
        return {"type": "integer", "minimum": self.least, **most}

    def in_words(self) -> str:
        """Return the range in words, such as "integer of at least 1, at most 100"."""
        if self.least == self.most:
            return str(self.least)
        most = "" if self.most >= LARGEST_INTEGER else f", at most {self.most:,}"
        return f"integer of at least {self.least}{most}"


@dataclass(frozen=True, slots=True)
class Number(Rule):
    """The rule for a finite number from `least` (excluded if `above` is set) to `most`.

    It is stored as a float, so that 300 and 300.0 have the same content hash, unless `as_given` is
    set.
    """

    dtype = "float64"

    least: float = 0.0
    most: float = math.inf
    above: bool = False
    as_given: bool = False

    def check(self, path: str, value: Any) -> float:
        """Return the value as a float, or unchanged if `as_given` is set."""
        if type(value) is not float:
            value = as_python(value)
        elif (
            math.isfinite(value)
            and self.least <= value <= self.most
            and not (self.above and value == self.least)
        ):
            return value  # the common case, kept fast
        number = require_number(
            path, value, minimum=self.least, above=self.above, maximum=self.most
        )
        return value if self.as_given else number

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a number with its range."""
        bounds: dict[str, float] = {}
        if self.least > -math.inf:
            bounds["exclusiveMinimum" if self.above else "minimum"] = self.least
        if self.most < math.inf:
            bounds["maximum"] = self.most
        return {"type": "number", **bounds}

    def in_words(self) -> str:
        """Return the range in words, such as "number above 0, at most 1"."""
        words = "number"
        if self.least > -math.inf:
            words += f" {'above' if self.above else 'of at least'} {self.least:g}"
        return words + (f", at most {_shown(self.most)}" if self.most < math.inf else "")


ANY_NUMBER = Number(-math.inf, as_given=True)
"""Any finite number, stored as it was given."""


@dataclass(frozen=True, slots=True)
class Text(Rule):
    """The rule for a non-empty string, which may have to be one of the given `choices`.

    With `may_be_empty` the empty string is valid, too.
    """

    choices: tuple[str, ...] = ()
    may_be_empty: bool = False

    def check(self, path: str, value: Any) -> str:
        """Return the string; raise `FieldError` if it is empty or not an allowed choice."""
        if type(value) is not str:
            value = as_python(value)
        elif (value or self.may_be_empty) and not self.choices and value.isascii():
            return value  # the common case, kept fast
        if self.choices:
            return require_choice(path, value, self.choices)
        return require_text(path, value)

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of the choices, or of any non-empty string."""
        if self.choices:
            return {"enum": list(self.choices)}
        return {"type": "string"} if self.may_be_empty else {"type": "string", "minLength": 1}

    def in_words(self) -> str:
        """Return the choices in quotes, or "text"."""
        return " or ".join(f'"{choice}"' for choice in self.choices) or "text"


_TEXT = Text()


@dataclass(frozen=True, slots=True)
class Choice(Rule):
    """The rule for a member of a string enumeration, given as the member or as its string."""

    of: type[StrEnum]

    def check(self, path: str, value: Any) -> StrEnum:
        """Return the member of the enumeration."""
        if type(value) is self.of:
            return value
        return self.of(require_choice(path, as_python(value), [str(each) for each in self.of]))

    def write(self, value: Any) -> str:
        """Return the string of the member."""
        return str(value)

    def schema(self) -> dict[str, Any]:
        """Return a JSON schema that lists the strings of the enumeration."""
        return {"enum": [str(member) for member in self.of]}

    def in_words(self) -> str:
        """Return the strings of the enumeration in quotes."""
        return " or ".join(f'"{member}"' for member in self.of)


@dataclass(frozen=True, slots=True)
class Flag(Rule):
    """The rule for a boolean."""

    dtype = "bool"

    def check(self, path: str, value: Any) -> bool:
        """Return the value as a bool."""
        return value if value is True or value is False else require_flag(path, as_python(value))

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a boolean."""
        return {"type": "boolean"}

    def in_words(self) -> str:
        """Return "true or false"."""
        return "true or false"


@dataclass(frozen=True, slots=True)
class OrNull(Rule):
    """The rule for null or a value that an inner rule accepts; `meaning` explains null."""

    rule: Rule
    meaning: str = ""

    @property
    def dtype(self) -> str:  # type: ignore[override]
        """The nullable pandas type of a column with such values."""
        return {"int64": "Int64", "bool": "boolean"}.get(self.rule.dtype, self.rule.dtype)

    def check(self, path: str, value: Any) -> Any:
        """Return None for null, or else the value as the inner rule returns it."""
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
        """Return null, or the value in the form in which the inner rule writes it to files."""
        return None if value is None else self.rule.write(value)

    def schema(self) -> dict[str, Any]:
        """Return a JSON schema that accepts null or a value of the inner rule."""
        return {"anyOf": [self.rule.schema(), {"type": "null"}]}

    def in_words(self) -> str:
        """Return the inner rule in words, followed by the meaning of null."""
        words = self.rule.in_words()
        return f"{words}, or null" + (f" for {self.meaning}" if self.meaning else "")


@contextmanager
def located(path: str) -> Iterator[None]:
    """Add the enclosing object's path to the field errors that are raised in a ``with`` block."""
    try:
        yield
    except FieldError as error:
        raise error.inside(path) from None


def _first_repeated(values: Sequence[Any]) -> tuple[int, Any]:
    """Return the position and the value of the first repeated entry, which must exist."""
    seen: set[Any] = set()
    return next(
        (position, value)
        for position, value in enumerate(values)
        if value in seen or seen.add(value)  # type: ignore[func-returns-value]
    )


@dataclass(frozen=True, slots=True)
class ListOf(Rule):
    """The rule for a list whose entries all follow one inner rule.

    Parameters
    ----------
    rule
        The rule for each entry.
    distinct
        Whether all entries must differ.
    least
        The smallest number of entries.
    unique
        A field that must differ between all entries, such as an id; empty for none.
    parent
        For a list inside entries of another list: the column that names the outer entry in a data
        frame of the inner entries.
    """

    rule: Rule
    distinct: bool = False
    least: int = 1
    unique: str = ""
    parent: str = ""

    def check(self, path: str, value: Any) -> tuple[Any, ...]:
        """Return the entries as a tuple; arrays, series and data frames are accepted as lists."""
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
        """Return the entries as a list."""
        if type(self.rule).write is Rule.write:
            return list(value)
        return [self.rule.write(each) for each in value]

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of an array with its smallest length."""
        least = {"minItems": self.least} if self.least else {}
        unique = {"uniqueItems": True} if self.distinct else {}
        return {"type": "array", "items": self.rule.schema(), **least, **unique}

    def in_words(self) -> str:
        """Return "list of:" and the rule for the entries in words."""
        return f"list of: {self.rule.in_words()}"


@dataclass(frozen=True, slots=True)
class Entry(Rule):
    """The rule for a list of fixed length, with a separate rule for each position."""

    rules: tuple[Rule, ...]
    what: str

    def check(self, path: str, value: Any) -> tuple[Any, ...]:
        """Return the list as a tuple."""
        value = as_list(value)
        if not isinstance(value, list | tuple) or len(value) != len(self.rules):
            raise FieldError(path, value, f"must be a {self.what}")
        return tuple(
            rule.check(f"{path}[{place}]", each)
            for place, (rule, each) in enumerate(zip(self.rules, value, strict=True))
        )

    def write(self, value: Any) -> list[Any]:
        """Return the tuple as a list."""
        return [rule.write(each) for rule, each in zip(self.rules, value, strict=True)]

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of an array with a schema for each position."""
        length = len(self.rules)
        items = [rule.schema() for rule in self.rules]
        return {"type": "array", "prefixItems": items, "minItems": length, "maxItems": length}

    def in_words(self) -> str:
        """Return the description that was given for the list."""
        return self.what


@dataclass(frozen=True, slots=True)
class OneOrList(Rule):
    """The rule for a value that follows an inner rule, or for a list of different such values."""

    rule: Rule

    def check(self, path: str, value: Any) -> tuple[Any, ...]:
        """Return a tuple of values; a single value becomes a tuple of length 1."""
        value = as_list(value)
        if isinstance(value, list | tuple):
            return ListOf(self.rule, distinct=True).check(path, value)
        return (self.rule.check(path, value),)

    def schema(self) -> dict[str, Any]:
        """Return a JSON schema that accepts a value or an array of values."""
        return {"anyOf": [self.rule.schema(), ListOf(self.rule, distinct=True).schema()]}

    def in_words(self) -> str:
        """Return the inner rule in words, followed by ", or list of them"."""
        return f"{self.rule.in_words()}, or list of them"


@dataclass(frozen=True, slots=True)
class Seeds(Rule):
    """The rule for random seeds: a list, or a number n (at most `most`) for seeds 0 to n - 1."""

    most: int

    def check(self, path: str, value: Any) -> tuple[int, ...]:
        """Return the seeds as a tuple."""
        value = as_list(value)
        if isinstance(value, list | tuple):
            return ListOf(Integer(), distinct=True).check(path, value)
        return tuple(range(Integer(1, self.most).check(path, value)))

    def schema(self) -> dict[str, Any]:
        """Return a JSON schema that accepts a number of seeds or an array of seeds."""
        listed = ListOf(Integer(), distinct=True)
        return {"anyOf": [Integer(1, self.most).schema(), listed.schema()]}

    def in_words(self) -> str:
        """Return "number of seeds from 0 on, or list of them"."""
        return "number of seeds from 0 on, or list of them"


@dataclass(frozen=True, slots=True)
class Line(Text):
    """The rule for printable text on one line, such as a title."""

    def check(self, path: str, value: Any) -> str:
        """Return the text; raise `FieldError` if it is empty or not printable on one line."""
        text = require_text(path, as_python(value))
        if not text.isprintable():
            raise FieldError(path, text, "must be printable text on one line")
        return text


@dataclass(frozen=True, slots=True)
class Name(Text):
    """The rule for a name that can also be the name of a folder."""

    def check(self, path: str, value: Any) -> str:
        """Return the name; raise `FieldError` if it is not a valid folder name."""
        name = require_text(path, as_python(value))
        if not NAME.fullmatch(name):
            raise FieldError(
                path,
                name,
                "must be 1 to 100 letters, digits, '.', '_' or '-', the first a letter or digit",
            )
        return name

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of a string with the pattern of names."""
        return {"type": "string", "pattern": f"^{NAME.pattern}$"}


def _with_texts_as_names(path: str, given: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(_TEXT.check(path, name)): value for name, value in given.items()}


@dataclass(frozen=True, slots=True)
class Named(Rule):
    """The rule for an object with names as keys, whose values all follow one inner rule.

    Parameters
    ----------
    rule
        The rule for each value.
    least
        The smallest number of names.
    names
        All allowed names; the result has them in this order. Empty if any name is allowed.
    """

    rule: Rule
    least: int = 0
    names: tuple[str, ...] = ()

    def check(self, path: str, value: Any) -> FrozenDict[str, Any]:
        """Return the object as a read-only dictionary."""
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
        """Return the dictionary, with each value in the form for JSON files."""
        if type(self.rule).write is Rule.write:
            return dict(value)
        return {name: self.rule.write(each) for name, each in value.items()}

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema of an object whose values have one schema."""
        least = {"minProperties": self.least} if self.least else {}
        if self.names:
            properties = {name: self.rule.schema() for name in self.names}
            names = {"additionalProperties": False, "properties": properties}
        else:
            names = {"propertyNames": {"minLength": 1}, "additionalProperties": self.rule.schema()}
        return {"type": "object", **names, **least}

    def in_words(self) -> str:
        """Return "mapping from names to:" and the rule for the values, with the allowed names."""
        names = f" ({', '.join(self.names)})" if self.names else ""
        return f"mapping from names{names} to: {self.rule.in_words()}"


@dataclass(frozen=True, slots=True)
class Anything(Rule):
    """The rule that accepts any value, because the code that receives the value checks it."""

    def check(self, path: str, value: Any) -> Any:  # noqa: ARG002
        """Return the value, with a list turned into a tuple."""
        return tuple(value) if isinstance(value, list) else value

    def schema(self) -> dict[str, Any]:
        """Return the JSON schema that accepts any value."""
        return {}

    def in_words(self) -> str:
        """Return "any value"."""
        return "any value"
