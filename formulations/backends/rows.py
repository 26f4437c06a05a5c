"""Rows of linear models as data: written once, they are added to the model of any backend."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from lyra_opt.core.result import Number

Term = tuple[Number, Any]
"""A coefficient and a variable, in a backend's own type."""


class Row(NamedTuple):
    """A constraint of a linear model: ``sum coefficient x <= limit``, or ``= limit``.

    Parameters
    ----------
    name
        The name of the constraint, such as ``capacity_3``.
    terms
        The sum, as pairs of coefficient and variable; each variable occurs at most once.
    limit
        The right-hand side.
    is_equation
        Whether the sum must equal the limit.
    """

    name: str
    terms: Sequence[Term]
    limit: Number
    is_equation: bool = False


def at_most(name: str, left: Iterable[Term], right: Iterable[Term] = (), limit: Number = 0) -> Row:
    """Return the row ``left <= right + limit``."""
    return Row(name, [*left, *((-coefficient, x) for coefficient, x in right)], limit)


def equal(name: str, left: Iterable[Term], right: Iterable[Term] = (), limit: Number = 0) -> Row:
    """Return the row ``left = right + limit``."""
    return at_most(name, left, right, limit)._replace(is_equation=True)


def each(variables: Iterable[Any], coefficient: Number = 1) -> list[Term]:
    """Return the sum of variables, each with the same coefficient, as terms."""
    return [(coefficient, x) for x in variables]
