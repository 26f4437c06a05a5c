"""Family ``set-union``: set-union knapsack problems as fleets of servers.

In the set-union knapsack problem (Goldschmidt, Nehme and Yu 1994), items have profits, and each
item needs a set of elements with weights. The knapsack holds items of the largest total profit
whose elements together weigh at most the capacity. An item becomes as many equal servers as it has
profit, and an element becomes a job of its weight with a worker on each server of each item that
needs it. Preempting a job once is enough for all its servers, so the least weight of preempted jobs
for N_R servers is the least weight of items with profit N_R.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import InputError
from lyra_opt.instances.family import ParameterisedFamily
from lyra_opt.instances.family_parameters import LARGEST_FLEET, ReclaimParameters
from lyra_opt.reclaim.instance import Instance, Job, Semantics, Server, WorkerGroup

WORD = re.compile("[A-Za-z]")
"""Found in headings, but not in lines of numbers."""


@dataclass(frozen=True, slots=True)
class SetUnionKnapsack:
    """A set-union knapsack problem.

    Parameters
    ----------
    profits
        Profit of each item.
    weights
        Weight of each element.
    needs
        Shape (items, elements): 1 if the item needs the element, else 0.
    capacity
        The largest total weight of the elements of the chosen items.
    """

    profits: NDArray[np.int64]
    weights: NDArray[np.int64]
    needs: NDArray[np.int64]
    capacity: int

    def fleet(self, name: str, reclaim: int) -> Instance:
        """Return the reclaim instance whose server ``iK-C`` is copy C of item K, from 1."""
        copies = [
            [f"i{item}-{copy}" for copy in range(1, profit + 1)]
            for item, profit in enumerate(self.profits.tolist(), start=1)
        ]
        jobs = [
            (
                f"e{place + 1}",
                weight,
                [each for item in np.flatnonzero(of) for each in copies[item]],
            )
            for place, (weight, of) in enumerate(
                zip(self.weights.tolist(), self.needs.T, strict=True)
            )
        ]
        return Instance(
            name=name,
            semantics=Semantics.RIGID,
            reclaim_servers=reclaim,
            servers=tuple(
                Server(id=server, gpus=max(1, int(row.sum())))
                for row, servers in zip(self.needs, copies, strict=True)
                for server in servers
            ),
            jobs=tuple(
                Job(
                    id=job,
                    weight=weight,
                    workers=tuple(WorkerGroup(server=server, base=1) for server in servers),
                )
                for job, weight, servers in jobs
                if servers
            ),
        )


def read_set_union(path: str | Path) -> SetUnionKnapsack:
    """Read a file in the layout of He et al. (2018), with or without its headings.

    The numbers of items m and elements n and the capacity come first, then m profits, n weights,
    and a row of n zeros and ones for each item. A title can precede them.

    Raises
    ------
    InputError
        If the file has another layout.
    """
    lines = [line for line in read_text(path).splitlines() if line.strip()]
    sizes_of = [[int(number) for number in re.findall(r"\d+", line)] for line in lines[:2]]
    if len(lines) > 1 and WORD.search(lines[0]) and len(sizes_of[0]) != 3:  # a title
        del lines[0], sizes_of[0]
    sizes = sizes_of[0]
    rows = " ".join(line for line in lines[1:] if not WORD.search(line)).split()
    if len(sizes) != 3 or not all(re.fullmatch(r"\d{1,15}", number) for number in rows):
        rule = "must begin with m, n and the capacity, followed by whole numbers"
        raise InputError(str(path), rule)
    items, elements, capacity = sizes
    if len(rows) != items + elements + items * elements:
        rule = f"must have m + n + m n = {items + elements + items * elements} numbers"
        raise InputError(str(path), f"{rule} after m, n and the capacity, not {len(rows)}")
    numbers = np.array(rows, dtype=np.int64)
    profits, weights, needs = np.split(numbers, [items, items + elements])
    if needs.max(initial=0) > 1:
        raise InputError(str(path), "the rows of its items must have zeros and ones")
    return SetUnionKnapsack(profits, weights, needs.reshape(items, elements), capacity)


class SetUnionFamily(ParameterisedFamily):
    """Family ``set-union``: set-union knapsack problems as fleets of servers."""

    problem = "reclaim"
    parameters = ReclaimParameters
    required: ClassVar[tuple[str, ...]] = ("reclaim", "items")

    def generate(self, parameters: Mapping[str, Any], seed: int) -> Instance:  # noqa: ARG002
        """Return the fleet of a file; `UserError` if the parameters are not valid."""
        checked = self.check(parameters)
        problem = read_set_union(checked.items)
        if (servers := int(problem.profits.sum())) > LARGEST_FLEET:
            rule = f"must have items of at most {LARGEST_FLEET} profit together, not {servers}"
            raise InputError(str(checked.items), rule)
        name = f"{self.name}-v{self.version}-{Path(checked.items).stem}-k{checked.reclaim}"
        return problem.fleet(name.replace(" ", "_"), checked.reclaim)


SET_UNION = SetUnionFamily(
    "set-union",
    version=1,
    summary="a set-union knapsack problem as a fleet: N_R is the profit; needs --items",
    is_drawn=False,
)
