"""Sums of fractions that are compared exactly, as integers over one common denominator.

Greedy rules add and compare terms such as w_j / |S_j|. In floating point two equal sums can
differ in the last digit, and a tie would be broken by rounding noise. Here every term is an
integer multiple of 1 / lcm(denominators). That multiple outgrows 64 bits on ordinary instances
(the spans 1 to 64 have a common multiple of 90 bits), so compiled code carries it in two limbs.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from lyra_opt.kernels import Kernel

    Limb = list[int] | NDArray[np.int64]

LIMB_BITS = 61  # two limbs can be added in 64 bits before the carry is taken


def integer_terms(weights: Sequence[int], denominators: Sequence[int]) -> list[int]:
    """Return each weight / denominator as an integer over the least common denominator.

    Parameters
    ----------
    weights
        Integers of at least 0.
    denominators
        As many integers; 0 marks a term that is left out, and gives 0.
    """
    common = math.lcm(*{denominator for denominator in denominators if denominator})
    unit = {denominator: common // denominator for denominator in set(denominators) if denominator}
    unit[0] = 0
    return [
        weight * unit[denominator]
        for weight, denominator in zip(weights, denominators, strict=True)
    ]


def limbs(terms: list[int], kernel: Kernel, work: int) -> tuple[Limb, Limb, int]:
    """Split terms into high and low limbs for `kernel`; return both and the radix.

    Term i is ``high[i] * radix + low[i]`` with 0 <= low < radix. For a kernel that will run
    interpreted the radix exceeds the sum of all terms, so that `low` holds everything.
    """
    total = sum(terms)
    if not kernel.compiles(work, largest=total >> LIMB_BITS):
        return [0] * len(terms), terms, total + 1
    mask = 2**LIMB_BITS - 1
    return (
        np.array([term >> LIMB_BITS for term in terms], dtype=np.int64),
        np.array([term & mask for term in terms], dtype=np.int64),
        2**LIMB_BITS,
    )
