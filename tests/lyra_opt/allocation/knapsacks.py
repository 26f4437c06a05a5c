"""Knapsacks for tests: drawn ones, and their optimum by looking at every choice."""

from fractions import Fraction

import numpy as np
from hypothesis import strategies as st

from lyra_opt.allocation.knapsack.data import Knapsack
from tests.reference.allocation import greatest_sum


def knapsack_of(capacity, classes):
    """Return the knapsack whose classes hold these items: weight and value."""
    items = [item for of_class in classes for item in of_class]
    return Knapsack(
        capacity=capacity,
        start=np.cumsum([0, *(len(of_class) for of_class in classes)]).astype(np.int64),
        weight=np.array([weight for weight, _ in items], dtype=np.int64),
        value=np.array([value for _, value in items], dtype=np.float64),
    )


@st.composite
def knapsacks(draw, max_classes=5, max_items=4):
    """Draw a knapsack of arbitrary classes.

    Empty classes, capacity 0, items that do not fit, worthless and dominated ones, in any order.
    """
    some = st.integers(-1, 6) | st.sampled_from((0.1, 0.2, 0.30000000000000004, 1 / 3))
    any_value = st.floats(0, 1e6, allow_subnormal=False).filter(lambda v: v == 0 or v > 1e-6)
    scale = draw(st.sampled_from((1.0, 1e-30, 1e30)))
    value = draw(st.sampled_from((some, some | any_value)))
    item = st.tuples(st.integers(1, 12), value.map(lambda v: float(v) * scale))
    classes = draw(st.lists(st.lists(item, max_size=max_items), max_size=max_classes))
    return knapsack_of(draw(st.integers(0, 25)), classes)


def value_of(knapsack, chosen):
    """Return the value of a choice; fails if it is not valid."""
    weight, value = 0, Fraction(0)
    for c, item in enumerate(chosen):
        if item >= 0:
            assert knapsack.start[c] <= item < knapsack.start[c + 1]
            weight += int(knapsack.weight[item])
            value += Fraction(float(knapsack.value[item]))
    assert len(chosen) == knapsack.classes
    assert weight <= knapsack.capacity
    return value


def greatest_value(knapsack):
    """Return the optimum, exact."""
    classes = [
        [(0, Fraction(0))]
        + [
            (int(knapsack.weight[item]), Fraction(float(knapsack.value[item])))
            for item in range(knapsack.start[c], knapsack.start[c + 1])
        ]
        for c in range(knapsack.classes)
    ]
    return greatest_sum(classes, knapsack.capacity)
