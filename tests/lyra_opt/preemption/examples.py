"""The worked example of the problem's page: two racks, and a gang of 2 pods that needs one rack."""

from lyra_opt.preemption import Instance, PlacedPods, Solution
from tests.tables import tables


def example_document():
    """Return the example as a document, which tests may change."""
    return tables(__file__)


def example(**changes):
    """Return the example with other fields."""
    document = example_document() | changes
    del document["format"], document["version"]
    return Instance(**document)


BEST = Solution(lost_gangs=["train-a"], placements=[PlacedPods(node="n1"), PlacedPods(node="n2")])
"""The optimum of the example."""
