"""Random small instances of the preemption problem with chosen features, as the reference draws.

They are irregular on purpose: requests of 0, cordoned nodes, nodes without a domain, selectors,
protected gangs, equal priorities, several pod groups of a gang on one node, and demands from
trivial to impossible. Numbers near 2^53 are left to the fuzzers.
"""

from lyra_opt.preemption import PROBLEM, Instance
from tests.reference import preemption as reference
from tests.reference.drawing import Draw

FEATURES = [feature for feature in reference.FEATURES if feature != "huge-numbers"]
KINDS = ("one-shape", *FEATURES, "moves", "mixture")
"""The kinds of instances that `draw` returns; other kinds than mixtures use only one feature."""


def draw(rng, kind):
    """Return an instance of one of `KINDS`, small enough for brute force."""
    dice = Draw(int(rng.integers(2**53)))
    variants = {"moves": ("victims", "any"), "mixture": reference.VARIANTS}.get(kind, ("none",))
    mixed = [feature for feature in FEATURES if dice.sometimes(0.4)]
    features = mixed if kind == "mixture" else [kind]
    instance = PROBLEM.parse_instance(reference.drawn(dice, dice.choice(variants), kind, features))
    assert isinstance(instance, Instance)
    return instance
