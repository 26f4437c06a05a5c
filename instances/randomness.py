"""Streams of seeded random integers that are the same with every version of NumPy.

The methods of `numpy.random.Generator` may return other numbers in a new release of NumPy; the raw
64-bit words of a bit generator may not change (NEP 19). This module therefore computes all numbers
from the raw words of PCG64, in integer arithmetic. One seed gives the same instance, byte for byte,
on any machine and with any version of NumPy.
"""

import math
from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

from lyra_opt.core.seeding import derive_seed

Item = TypeVar("Item")

_WORD_VALUES = 2**64
_WORDS_A_READ = 4096
_FRACTIONS = 2**53


class IntegerStream:
    """A stream of uniform random integers, seeded by named values.

    Parameters
    ----------
    axes
        Names and values that determine the stream (see `lyra_opt.core.seeding.derive_seed`).

    Examples
    --------
    >>> stream = IntegerStream(family="example", seed=0)
    >>> all(0 <= stream.below(6) < 6 for _ in range(100))
    True
    """

    def __init__(self, **axes: str | int) -> None:
        self._bits = np.random.PCG64(derive_seed(**axes))
        self._words: list[int] = []

    def word(self) -> int:
        """Return the next integer from 0 to 2**64 - 1."""
        if not self._words:
            # Words are read in bulk for speed, and reversed because `pop` takes them from the end.
            self._words = self._bits.random_raw(_WORDS_A_READ).tolist()
            self._words.reverse()
        return self._words.pop()

    def below(self, bound: int) -> int:
        """Return an integer from 0 to ``bound - 1``, each equally likely.

        A word at or above the largest multiple of `bound` is rejected and drawn again, because its
        remainder would make small integers more likely.

        Raises
        ------
        ValueError
            If `bound` is not from 1 to 2**64.
        """
        if not 1 <= bound <= _WORD_VALUES:
            raise ValueError(f"bound is {bound}: must be from 1 to 2**64")
        accepted = _WORD_VALUES - _WORD_VALUES % bound
        word = self.word()
        while word >= accepted:
            word = self.word()
        return word % bound

    def between(self, least: int, largest: int) -> int:
        """Return an integer from `least` to `largest`, both included, each equally likely."""
        return least + self.below(largest - least + 1)

    def fraction(self) -> float:
        """Return a uniform random multiple of 2**-53, at least 0 and below 1."""
        return self.below(_FRACTIONS) / _FRACTIONS

    def exponential(self) -> float:
        """Return a sample of the exponential distribution with mean 1."""
        return -math.log1p(-self.fraction())

    def percent(self, chance: int) -> bool:
        """Return True with a probability of `chance` %."""
        return self.below(100) < chance

    def weighted(self, weights: Sequence[int]) -> int:
        """Return a random index into `weights`, with a probability proportional to its weight."""
        drawn = self.below(sum(weights))
        for position, weight in enumerate(weights):
            if drawn < weight:
                return position
            drawn -= weight
        raise AssertionError("the draw is below the sum of the weights")

    def shuffle(self, items: list[Item]) -> None:
        """Permute `items` in place, with every order equally likely (Fisher-Yates shuffle)."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return `count` distinct elements of `items` in random order, every choice equally likely.

        Takes O(items) time, for the copy of the list.

        Raises
        ------
        ValueError
            If there are fewer than `count` items.
        """
        if not 0 <= count <= len(items):
            rule = f"must be from 0 to {len(items)}, the number of items"
            raise ValueError(f"count is {count}: {rule}")
        pool = list(items)
        for position in range(count):
            other = self.between(position, len(pool) - 1)
            pool[position], pool[other] = pool[other], pool[position]
        return pool[:count]


class DrawableSet:
    """A set of integers from which a random member can be drawn in constant time.

    The drawn member depends on the order of earlier insertions and removals, and is reproducible.

    Parameters
    ----------
    members
        Distinct integers.
    """

    def __init__(self, members: Iterable[int]) -> None:
        self._members = list(members)
        self._position = {member: position for position, member in enumerate(self._members)}

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: int) -> bool:
        return member in self._position

    def add(self, member: int) -> None:
        """Add an integer that is not yet a member."""
        self._position[member] = len(self._members)
        self._members.append(member)

    def remove(self, member: int) -> None:
        """Remove a member; the last member of the internal list moves to its position."""
        position, last = self._position.pop(member), self._members.pop()
        if last != member:
            self._members[position] = last
            self._position[last] = position

    def draw(self, stream: IntegerStream) -> int:
        """Return a random member, which stays in the set."""
        return self._members[stream.below(len(self._members))]
