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
