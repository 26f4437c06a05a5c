"""Rules for single fields, used by the dataclasses that hold instances and solutions.

Every function returns the value it was given, so that a dataclass can check and keep it in
one expression, and raises `FieldError` where the rule does not hold.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lyra_opt.core.errors import FieldError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

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
        raise FieldError(field, value, "must be a string that is not empty")
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
