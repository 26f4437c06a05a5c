"""Quantities of Kubernetes, such as ``500m`` and ``16Gi``, as integers.

Source: k8s.io/apimachinery, ``pkg/api/resource/quantity.go``.
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from lyra_opt.core.errors import show_value

_FACTORS: dict[str, Fraction] = {
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("n", "u", "m"), -3)},
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("", *"kMGTPE"))},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", 1)},
}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40}))"
    r"(?:[eE](?P<exponent>[+-]?[0-9]{1,2})|(?P<suffix>[numkMGTPE]|[KMGTPE]i)?)"
)
MILLI = {"cpu": 1000}
"""The number of units in 1, for resources that are counted in smaller units."""


def exact(quantity: str) -> Fraction:
    """Return the value of a quantity; `ValueError` if it is not one or is negative."""
    match = _QUANTITY.fullmatch(quantity)
    if match is None:
        hint = ""
        if re.fullmatch(r"[0-9.]+K", quantity):
            hint = "; the suffix for 1,000 is k, and the one for 1,024 is Ki"
        elif _QUANTITY.fullmatch(quantity[:-1]) and quantity[-1] in "bB":
            hint = f"; did you mean {quantity[:-1]}?"
        raise ValueError(f"{show_value(quantity)} is not a quantity of Kubernetes{hint}")
    value = Fraction(match["number"]) * _FACTORS[match["suffix"] or ""]
    value *= Fraction(10) ** int(match["exponent"] or 0)
    if value < 0:
        raise ValueError(f"{show_value(quantity)} is negative")
    return value


@lru_cache(maxsize=65536)
def amount(resource: str, quantity: str | float) -> int:
    """Return a quantity of a resource, rounded up to milli-CPUs for ``cpu``, else to units.

    Raises
    ------
    ValueError
        If it is not a quantity or is negative; the message names the resource.
    """
    try:
        return ceil(exact(str(quantity)) * MILLI.get(resource, 1))
    except ValueError as error:
        raise ValueError(f"{resource}: {error}") from None
