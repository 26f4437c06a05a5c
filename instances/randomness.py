"""Integers drawn from a bit stream that no library version can change.

`numpy.random.Generator` may change what its methods return from one release to the next; the
raw 64-bit words of a bit generator may not (NEP 19). Everything here is therefore built, in
integers, on the raw words of PCG64 alone, so that one seed gives the same instance, byte for
byte, on any machine and any version of NumPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from lyra_opt.core.seeding import derive_seed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Item = TypeVar("Item")

_WORD_VALUES = 2**64
_WORDS_A_READ = 4096
_FRACTIONS = 2**53


class IntegerStream:
    """A stream of uniform integers, seeded from named axes.

    Parameters
    ----------
    axes
        What the draws depend on, by name (see `lyra_opt.core.seeding.derive_seed`).

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
            # Reading in bulk yields the same words as reading singly, only faster; reversed
            # because a list gives from its end.
            self._words = self._bits.random_raw(_WORDS_A_READ).tolist()
            self._words.reverse()
        return self._words.pop()

    def below(self, bound: int) -> int:
        """Return an integer from 0 to ``bound - 1``, each equally likely.

        Words in the last, incomplete run of `bound` values are rejected: the remainder of a
        word alone would favour small integers.

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
        """Return a number from 0 to below 1, a multiple of 2**-53, each equally likely."""
        return self.below(_FRACTIONS) / _FRACTIONS

    def exponential(self) -> float:
        """Return a draw from the exponential distribution of mean 1."""
        return -math.log1p(-self.fraction())

    def percent(self, chance: int) -> bool:
        """Return True with a chance of `chance` in a hundred."""
        return self.below(100) < chance

    def weighted(self, weights: Sequence[int]) -> int:
        """Return a position of `weights`, as likely as its share of their sum."""
        drawn = self.below(sum(weights))
        for position, weight in enumerate(weights):
            if drawn < weight:
                return position
            drawn -= weight
        raise AssertionError("the draw is below the sum of the weights")

    def shuffle(self, items: list[Item]) -> None:
        """Permute `items` in place, every order equally likely (Fisher and Yates)."""
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return `count` of `items`, every choice equally likely, in the order of drawing.

        Time O(count), and O(items) once to copy them.

        Raises
        ------
        ValueError
            If there are fewer than `count` items.
        """
        if not 0 <= count <= len(items):
            raise ValueError(f"count is {count}: must be from 0 to the {len(items)} items")
        pool = list(items)
        for position in range(count):
            other = self.between(position, len(pool) - 1)
            pool[position], pool[other] = pool[other], pool[position]
        return pool[:count]


class DrawableSet:
    """A set of integers from which one is drawn, each equally likely, in constant time.

    Which one a draw yields depends on the whole history of the set, which is deterministic.

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
        """Put in `member`, which must not be there."""
        self._position[member] = len(self._members)
        self._members.append(member)

    def remove(self, member: int) -> None:
        """Take out `member`, which must be there; the last member moves to its position."""
        position, last = self._position.pop(member), self._members.pop()
        if last != member:
            self._members[position] = last
            self._position[last] = position

    def draw(self, stream: IntegerStream) -> int:
        """Return a member, which stays in the set."""
        return self._members[stream.below(len(self._members))]
