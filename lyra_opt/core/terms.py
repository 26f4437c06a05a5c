"""The terms of an objective that one integer encodes, as text.

Most objectives are one number, which `ONE_NUMBER` stands for. Where an objective is an ordered list
of terms, the toolkit works with one integer of the same order. This integer means nothing to a
reader, so texts show the values of the terms, and the first term in which two values differ.
"""

from collections.abc import Callable
from dataclasses import dataclass

from lyra_opt.core.result import Number
from lyra_opt.core.texts import show_value_of


def _is_one_number(code: int) -> tuple[int, ...]:
    return (code,)


@dataclass(frozen=True, slots=True)
class Terms:
    """The names of the terms, the most important one first, and how an integer encodes them.

    Parameters
    ----------
    keys
        The names of the terms; none if the objective is one number.
    decode
        Returns the values of the terms that an integer encodes.
    measure
        The measure of answers with the same values, which texts therefore omit.
    """

    keys: tuple[str, ...] = ()
    decode: Callable[[int], tuple[int, ...]] = _is_one_number
    measure: str = ""

    def in_words(self, value: Number) -> str:
        """Return an objective or a bound as text, such as ``0, 2, 8``."""
        if not self.keys:
            return show_value_of(value)
        return ", ".join(f"{each}" for each in self.decode(int(value)))

    def difference(self, value: Number, reference: Number) -> str:
        """Return the difference in the first term that differs, such as ``+1 lost_gangs``."""
        pairs = zip(self.decode(int(value)), self.decode(int(reference)), strict=True)
        for key, (one, other) in zip(self.keys, pairs, strict=True):
            if one != other:
                return f"{one - other:+,} {key}"
        return "0"

    @property
    def legend(self) -> str:
        """The names of the terms as text; empty if the objective is one number."""
        return ", ".join(self.keys)


ONE_NUMBER = Terms()
"""The terms of an objective that is one number."""
