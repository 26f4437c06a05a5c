"""Random choices from which instances are drawn, made by Hypothesis or by a seeded generator."""

from collections.abc import Callable, Collection
from typing import TypeVar

T = TypeVar("T")


class Choices:
    """Random choices, all made by one function that returns an integer of a range.

    Hypothesis shrinks integers towards the least one. So a failing instance shrinks towards "no",
    the first of several values, and entries in their own order.

    Parameters
    ----------
    integer
        Returns a random integer from the first argument to the second, such as `Random.randint`.
    """

    def __init__(self, integer: Callable[[int, int], int]) -> None:
        self.integer = integer

    def yes(self, one_in: int = 2) -> bool:
        """Return whether to do something that happens in one of `one_in` cases."""
        return self.integer(1, one_in) == one_in

    def one_of(self, *values: T) -> T:
        """Return one of the values; a value that is named twice is chosen twice as often."""
        return values[self.integer(0, len(values) - 1)]

    def some(self, entries: Collection[T], least: int, most: int) -> list[T]:
        """Return `least` to `most` different entries, or all if there are fewer, in any order."""
        left = list(entries)
        count = self.integer(min(least, len(left)), min(most, len(left)))
        return [left.pop(self.integer(0, len(left) - 1)) for _ in range(count)]

    def order(self, entries: Collection[T]) -> list[T]:
        """Return all entries in any order."""
        return self.some(entries, len(entries), len(entries))
