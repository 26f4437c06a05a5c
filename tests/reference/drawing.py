"""What the generators and the brute forces of all problems share."""

from random import Random
from typing import Any, Final

Document = dict[str, Any]

INFEASIBLE: Final = "infeasible"
UNKNOWN: Final = "unknown"

LARGEST_INTEGER = 2**53 - 1


class InvalidChoiceError(Exception):
    """A choice breaks a rule of the problem."""


def require(is_kept: bool, rule: str) -> None:
    """Raise `InvalidChoiceError` with the rule that is not kept."""
    if not is_kept:
        raise InvalidChoiceError(rule)


class Draw(Random):
    """Random choices, among which the odd ones are not rare."""

    def sometimes(self, share: float) -> bool:
        """Return true in this share of cases."""
        return self.random() < share

    def pick(self, *choices: Any) -> Any:
        """Return one of the choices."""
        return self.choice(choices)

    def names(self, letter: str, count: int) -> list[str]:
        """Return different names, some with signs that are not letters, not sorted."""
        form = self.pick(
            "{0}{1}", "{0}{1}", "{0}{1}", "{1}", 'ü "{0}\\{1}', " {0} {1}, ", "{0}.{1}"
        )
        found = [form.format(letter, number) for number in range(count)]
        if self.sometimes(0.3):
            self.shuffle(found)
        return found
