"""How much of what could be tried is tried each time; `make test-slow` tries all of it."""

import pytest
from hypothesis import settings

FULL = 100
"""Examples of the profile ``full``, in which counts are as the tests state them."""
LEAST = 2


def draws(number, **others):
    """Return settings for `number` examples in the profile ``full``, and its share in others.

    Parameters
    ----------
    number
        Examples that the test is worth, about a second of them.
    **others
        Further settings of Hypothesis.
    """
    share = settings().max_examples
    return settings(max_examples=max(LEAST, number * share // FULL), **others)


def sampled(cases, every):
    """Return tuples of arguments of a test, of which all but one of `every` are slow."""
    return [
        pytest.param(*case, marks=[pytest.mark.slow] if position % every else [])
        for position, case in enumerate(cases)
    ]
