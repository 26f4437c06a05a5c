"""Random small instances of the preemption problem, with chosen features.

They are irregular on purpose: requests of 0, cordoned nodes, nodes without a domain, selectors,
protected gangs, equal priorities, several pod groups of a gang on one node, and demands from
trivial to impossible. Odd numbers and names are left to `tests.odd_instances`.
"""

from random import Random

from lyra_opt.testing.choices import Choices
from lyra_opt.testing.drawn_instances import PREEMPTION_FEATURES, preemption_instance
from tests.odd_instances import LIMITS

ALWAYS = ("labels", "optional", "victims")
FEATURES = tuple(each for each in PREEMPTION_FEATURES if each not in ALWAYS)
KINDS = ("one-shape", *FEATURES, "moves", "mixture")
"""The kinds of instances that `draw` returns; other kinds than mixtures use only one feature."""
MOST_PODS = {"none": 7, "victims": 5, "any": 5}
"""The most running pods by the gangs that may move pods, for which brute force is quick."""


def draw(rng, kind):
    """Return an instance of one of `KINDS`, small enough for brute force."""
    choose = Choices(Random(int(rng.integers(2**53))).randint)
    moves = {"moves": ("victims", "any"), "mixture": tuple(MOST_PODS)}.get(kind, ("none",))
    mixed = [each for each in FEATURES if choose.yes()]
    without = {*FEATURES}.difference(mixed if kind == "mixture" else [kind])
    (limits,) = LIMITS["preemption"]
    while True:
        drawn = preemption_instance(choose, moves=choose.one_of(*moves), without=without, **limits)
        if sum(gang.size for gang in drawn.gangs) <= MOST_PODS[drawn.moves]:
            return drawn
