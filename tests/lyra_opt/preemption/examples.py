"""The worked example of the problem's page: two racks, and a gang of 2 pods that needs one rack."""

from __future__ import annotations

from typing import Any

from lyra_opt.preemption import Instance, PlacedPods, Solution


def example_document() -> dict[str, Any]:
    """Return the example as a document, which tests may change."""

    def pods(node: str, gpus: int, count: int = 1) -> dict[str, Any]:
        return {"node": node, "request": {"gpu": gpus, "cpu": 4 * gpus}, "count": count}

    racks = {"n1": "r1", "n2": "r1", "n3": "r2", "n4": "r2"}
    gangs = {
        "serve": {"priority": 100, "is_protected": True, "pods": [pods("n3", 2)]},
        "train-a": {"priority": 10, "pods": [pods("n1", 4), pods("n2", 4)]},
        "train-b": {"priority": 10, "min_pods": 2, "pods": [pods("n1", 2, 2), pods("n2", 2)]},
        "batch": {"priority": 5, "pods": [pods("n2", 1)]},
    }
    shape = {"count": 2, "request": {"gpu": 4, "cpu": 16}}
    return {
        "format": "lyra-opt/preemption",
        "version": 1,
        "name": "two-racks",
        "moves": "none",
        "nodes": [
            {"id": node, "capacity": {"gpu": 8, "cpu": 64}, "domains": {"rack": rack}}
            | ({"is_usable": False} if node == "n4" else {})
            for node, rack in racks.items()
        ],
        "gangs": [{"id": name, **gang} for name, gang in gangs.items()],
        "demand": {"priority": 50, "level": "rack", "shapes": [shape]},
        "objective": ["lost_pods_by_priority", "lost_gangs", "lost:gpu"],
    }


def example(**changes: Any) -> Instance:
    """Return the example with other fields."""
    document = example_document() | changes
    del document["format"], document["version"]
    return Instance(**document)


BEST = Solution(lost_gangs=["train-a"], placements=[PlacedPods(node="n1"), PlacedPods(node="n2")])
"""The optimum of the example."""
