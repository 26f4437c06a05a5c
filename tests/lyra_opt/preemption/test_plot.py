"""The picture of preemption: who stays, leaves and comes on each node, for each solution."""

from dataclasses import replace

import pytest

from lyra_opt.core.pictures import save_picture
from lyra_opt.preemption import MovedPods, PlacedPods, Solution
from lyra_opt.preemption.plot import EMPTIED_EDGE, LOST, MOST_NODES, MOVES, PENDING, SAFE, STAYS
from lyra_opt.preemption.plot import drawing_of as draw
from tests.lyra_opt.preemption.examples import BEST, example, example_document
from tests.pictures import bars_of

OTHER = Solution(
    lost_gangs=["train-b"],
    moved_pods=[MovedPods(gang="batch", to="n3")],
    placements=[PlacedPods(node="n1"), PlacedPods(node="n2")],
)
BEFORE_1, AFTER_1, BEFORE_2, AFTER_2, BEFORE_3, AFTER_3 = 1, 1.9, 3.1, 4.0, 6.2, 7.1
"""Rows: the head of rack r1 is above, and that of r2 between n2 and n3."""


def names(figure):
    return [label.get_text() for label in figure.axes[0].get_yticklabels()]


def large(nodes, **changes):
    """Return the example with further empty nodes in a third rack."""
    more = [
        {"id": f"x{n}", "capacity": {"gpu": 8}, "domains": {"rack": "r3"}} for n in range(nodes)
    ]
    return example(nodes=example_document()["nodes"] + more, **changes)


def test_colours_say_who_stays_leaves_and_comes():
    """Protects the reading: the upper bar is before, the lower bar after, at equal places."""
    figure = draw(example(moves="any"), {"best": BEST, "other": OTHER}).figure()
    best, other = (bars_of(figure, panel) for panel in (0, 1))
    assert {(STAYS, BEFORE_1, 0, 4), (LOST, BEFORE_1, 4, 4), (STAYS, AFTER_1, 0, 4)} <= set(best)
    assert {(PENDING, AFTER_1, 4, 4), (LOST, BEFORE_2, 3, 4), (PENDING, AFTER_2, 3, 4)} <= set(best)
    assert {(LOST, BEFORE_2, 4, 2), (MOVES, BEFORE_2, 6, 1), (PENDING, AFTER_2, 4, 4)} <= set(other)
    assert {(STAYS, BEFORE_3, 0, 2), (STAYS, AFTER_3, 0, 2), (MOVES, AFTER_3, 2, 1)} <= set(other)
    assert names(figure) == ["n1", "n2", "n3", "n4, cordoned"]
    assert {"rack r1", "rack r2"} <= {text.get_text() for text in figure.axes[0].texts}
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "best\n1 gang lost, 8 GPUs lost",
        "other\n1 gang lost, 6 GPUs lost, 1 pod moved",
    ]


def test_entries_for_the_same_pods_are_summed():
    """A solution may list pods of a group one by one."""
    moved = [MovedPods(gang="train-b", to="n3")] * 2
    figure = draw(example(moves="any"), {"x": replace(BEST, moved_pods=moved)}).figure()
    assert (MOVES, AFTER_3, 2, 4) in bars_of(figure, 0)


def test_an_instance_alone():
    """Without solutions a node has one bar, which says whom the rules protect."""
    instance = large(0, empty_nodes=1)
    figure = draw(instance, {}).figure()
    assert {(STAYS, 1, 0, 4), (STAYS, 2, 6, 1), (SAFE, 4, 0, 2)} <= set(bars_of(figure, 0))
    title = "two-racks\n4 nodes, 4 gangs, 2 × 4 GPUs pending, 1 to empty"
    assert figure.axes[0].get_title(loc="left") == title


def test_emptied_nodes_are_framed():
    """Nodes to be emptied are visible although nothing may be on them."""
    from matplotlib.colors import to_hex

    solution = replace(BEST, emptied_nodes=["n4"])
    figure = draw(example(empty_nodes=1), {"best": solution}).figure()
    frames = [bar for bar in figure.axes[0].patches if not bar.get_fill()]
    assert [to_hex(bar.get_edgecolor()) for bar in frames] == [EMPTIED_EDGE]


def test_of_a_large_fleet_only_changed_nodes_are_drawn():
    """Protects large fleets, and says how many nodes are left out."""
    figure = draw(large(MOST_NODES), {"best": BEST}).figure()
    assert names(figure) == ["n1", "n2"]
    assert figure.get_supxlabel().replace("\n", " ") == (
        "Drawn: 2 of 24 nodes, preferring those that change; the others do not change"
    )
    document = example_document()["demand"]
    spread = {**document, "is_level_required": False}
    spread["shapes"] = [{"count": 30, "request": {"gpu": 1}}]
    many = Solution(lost_gangs=[], placements=[PlacedPods(node=f"x{n}") for n in range(30)])
    figure = draw(large(30, demand=spread), {"many": many}).figure()
    assert len(names(figure)) == MOST_NODES
    assert figure.get_supxlabel().replace("\n", " ") == (
        "Drawn: 20 of 34 nodes, preferring those that change; 10 of the others change"
    )


@pytest.mark.parametrize("suffix", ["svg", "png"])
def test_pictures_are_written(tmp_path, suffix):
    """Other resources than GPUs are drawn too, and files are written."""
    shape = {"count": 1, "request": {"cpu": 2}}
    nodes = [{"id": "n", "capacity": {"cpu": 4}}]
    instance = example(nodes=nodes, gangs=[], demand={"shapes": [shape]}, objective=["lost_pods"])
    solution = Solution(lost_gangs=[], placements=[PlacedPods(node="n")])
    figure = draw(instance, {"x": solution}).figure()
    assert figure.axes[0].get_xlabel() == "cpu (above: before, below: after)"
    save_picture(tmp_path / f"p.{suffix}", figure)
    assert (tmp_path / f"p.{suffix}").stat().st_size > 1000
