"""Find the proof of a bound: branch and bound, with rounded dual multipliers in the leaves.

This module need not be trusted. `lyra_opt.proofs.stand_alone` checks each proof and shares no code
with solvers. It also builds the programme that is searched here.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from lyra_opt.core.stopwatch import loading, require_time
from lyra_opt.proofs.stand_alone import (
    PROOF_FORMAT,
    PROOF_VERSION,
    Refuted,
    content_hash,
    cost_of,
    leaf_value,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from lyra_opt.core.arrays import FloatArray
    from lyra_opt.core.documents import JsonObject
    from lyra_opt.proofs.stand_alone import Box, ProofProgramme


INTEGER_BITS, BITS = 10, 48
"""Binary digits of multipliers after the point: for integer programmes, whose leaves may be loose,
and for continuous programmes, relative to the largest cost."""
DUAL_TOLERANCE = 1e-10
"""Tolerance of HiGHS on continuous programmes, which have no branches to make up for an error."""

INTEGRAL, NEAR = 1e-6, 1e-9
"""Tolerance for an integer value; relative tolerance for a node whose value reaches the target."""
MOST_CANDIDATES = 8
"""Most variables on which branching is tried before one is chosen."""


class NotProved(Exception):  # noqa: N818
    """No proof was found, since the bound is wrong or the numbers differ too much in size."""


def proof_head(instance: str, document: JsonObject) -> JsonObject:
    """Return the keys with which every proof begins.

    Parameters
    ----------
    instance
        The name of the instance.
    document
        The instance as read from its file.
    """
    return {
        "format": PROOF_FORMAT,
        "version": PROOF_VERSION,
        "instance": instance,
        "sha256": content_hash(document),
    }


class TooManyNodes(NotProved):
    """The tree would have more nodes than allowed."""


@dataclass(slots=True)
class _Node:
    box: Box
    value: float
    fractional: list[int] = field(default_factory=list)
    point: FloatArray | None = None
    row_dual: FloatArray | None = None
    ray: FloatArray | None = None


def _digits(numbers: Iterable[Any]) -> int:
    """Return roughly the number of binary digits before the point of the largest number."""
    largest = max((abs(Fraction(each)) for each in numbers), default=Fraction(0))
    return largest.numerator.bit_length() - largest.denominator.bit_length()


class Prover:
    """A search for a proof that no point of a programme costs less than a target.

    Parameters
    ----------
    programme
        The programme to minimise.
    target
        The cost below which no point may be. In an integer programme it suffices that no point
        costs at most `target` - 1.
    first
        Variables that are branched on before all others.
    most_nodes
        Most nodes of the tree.

    Notes
    -----
    Depth first, lower side of a branch first. The linear programmes are solved by HiGHS,
    warm-started from node to node. A few fractional variables in many rows are candidates, and
    a node branches on the one whose two sides rise most. Complexity: that of branch and bound;
    each node solves one linear programme, plus some for each candidate. A continuous programme
    is a single leaf.
    """

    def __init__(
        self,
        programme: ProofProgramme,
        target: Fraction,
        first: Container[int] = (),
        most_nodes: float = math.inf,
    ) -> None:
        with loading():
            import highspy
        self._highspy, self._programme = highspy, programme
        self.target, self._first, self._most_nodes = target, first, most_nodes
        self._enough = target - 1 if programme.is_integral else target
        # Costs are scaled so that the largest cost is about 1, whatever their unit is.
        # In continuous programmes, coefficients and bounds are scaled as well as costs.
        self._column_digits, self._row_digits = [0] * len(programme.cost), [0] * len(programme.rows)
        if programme.is_continuous:
            self._column_digits = [_digits([each]) for each in programme.upper]
            self._row_digits = [
                _digits(
                    each * Fraction(2) ** self._column_digits[column]
                    for column, each in coefficients.items()
                )
                for coefficients, _, _ in programme.rows
            ]
        costs = zip(programme.cost, self._column_digits, strict=True)
        digits = _digits(cost * Fraction(2) ** shift for cost, shift in costs)
        self._unit = Fraction(2) ** digits
        wanted = INTEGER_BITS if programme.is_integral else BITS - digits
        self.denominator: int = 2 ** max(0, wanted + max(self._row_digits, default=0))
        self._highs = highspy.Highs()
        for option, value in (
            ("output_flag", False),
            ("threads", 1),
            ("presolve", "off"),
            ("solver", "simplex"),
        ):
            self._highs.setOptionValue(option, value)
        if programme.is_continuous:
            for tolerance in ("primal_feasibility_tolerance", "dual_feasibility_tolerance"):
                self._highs.setOptionValue(tolerance, DUAL_TOLERANCE)
        self._load()
        self._changed: set[int] = set()
        self._rows_of = Counter(column for row, _, _ in programme.rows for column in row)
        self.nodes: list[JsonObject] = []

    def _load(self) -> None:
        programme, highs = self._programme, self._highs
        columns = len(programme.upper)
        nothing = np.zeros(0, dtype=np.int32)
        scale = [Fraction(2) ** digits for digits in self._column_digits]
        costs = zip(programme.cost, scale, strict=True)
        cost = np.array([float(each * by / self._unit) for each, by in costs])
        upper = np.array(programme.upper, dtype=float)
        if programme.is_continuous:
            # The rows already limit shares and levels, so variables need no upper bounds.
            # An upper bound on a barely feasible level would make the rounded rows infeasible.
            upper.fill(math.inf)
        highs.addCols(columns, cost, np.zeros(columns), upper, 0, nothing, nothing, np.zeros(0))
        of_row = zip(programme.rows, self._row_digits, strict=True)
        for (coefficients, right, is_equation), digits in of_row:
            over = Fraction(2) ** digits
            index = np.array(list(coefficients), dtype=np.int32)
            value = np.array([float(each * scale[of] / over) for of, each in coefficients.items()])
            least = float(right / over)
            highs.addRow(least, least if is_equation else math.inf, len(index), index, value)

    def prove(self) -> None:
        """Build the branch-and-bound tree in `nodes`, in the order in which the checker reads it.

        Raises
        ------
        NotProved
            If a node cannot be closed; `TooManyNodes` if the tree would be too large.
        OutOfTimeError
            If the time limit in force is reached.
        """
        waiting: list[Box] = [{}]
        while waiting:
            require_time()
            if len(self.nodes) >= self._most_nodes:
                raise TooManyNodes(f"the tree has more than {self._most_nodes} nodes")
            node = self._solved(waiting.pop())
            leaf = self._leaf(node)
            if leaf is not None:
                self.nodes.append(leaf)
                continue
            if self._programme.is_continuous:
                shown = self._programme.sense * node.value * self._unit
                known = "no bound" if node.point is None else f"only {float(shown):.12g}"
                raise NotProved(f"the linear programme proves {known}")
            column = self._branching(node) if node.fractional else self._undecided(node)
            if column is None:
                self.nodes.append(self._decided_leaf(node.box))
                continue
            low, high = node.box.get(column, (0, self._programme.upper[column]))
            middle = (low + high) / 2 if node.point is None else float(node.point[column])
            at_most = min(high - 1, max(low, math.floor(middle)))
            self.nodes.append({"branch": column, "at_most": at_most})
            waiting.append({**node.box, column: (at_most + 1, high)})
            waiting.append({**node.box, column: (low, at_most)})

    def _solved(self, box: Box) -> _Node:
        highs, status = self._highs, self._highspy.HighsModelStatus
        for column in self._changed - box.keys():
            highs.changeColBounds(column, 0.0, float(self._programme.upper[column]))
        for column, (low, high) in box.items():
            highs.changeColBounds(column, float(low), float(high))
        self._changed = set(box)
        highs.run()
        if highs.getModelStatus() == status.kModelEmpty:
            return _Node(box=box, value=-math.inf, point=np.zeros(0), row_dual=np.zeros(0))
        if highs.getModelStatus() == status.kInfeasible:
            _, has_ray, ray = highs.getDualRay()
            return _Node(box=box, value=math.inf, ray=np.asarray(ray) if has_ray else None)
        solution = highs.getSolution()
        # After a numerical failure of HiGHS, integer programmes branch; others use the known duals.
        is_known = self._programme.is_continuous and solution.dual_valid
        if highs.getModelStatus() != status.kOptimal and not is_known:
            return _Node(box=box, value=-math.inf)
        point = np.asarray(solution.col_value)
        is_open = not self._programme.is_continuous
        away = np.abs(point - np.round(point)) * is_open
        return _Node(
            box=box,
            value=highs.getInfo().objective_function_value,
            fractional=np.flatnonzero(away > INTEGRAL).tolist(),
            point=point,
            row_dual=np.asarray(solution.row_dual),
        )

    def _leaf(self, node: _Node) -> JsonObject | None:
        """Return a proof leaf that closes a node; None if the LP multipliers do not suffice."""
        if node.row_dual is not None:
            enough = float(self._enough / self._unit)
            if node.fractional and node.value <= enough - abs(enough) * NEAR:
                return None
            leaf, value = self._rounded(node.box, node.row_dual, {})
            return leaf if self._is_enough(value) else None
        for ray in () if node.ray is None else (node.ray, -node.ray):
            scaled = ray / max(1e-300, float(np.abs(ray).max()))
            leaf, value = self._rounded(node.box, scaled, {"is_empty": True})
            if value > 0:
                return leaf
        return None

    def _rounded(self, box: Box, dual: FloatArray, leaf: JsonObject) -> tuple[JsonObject, Fraction]:
        """Return a leaf with LP multipliers rounded to fractions, and the cost that it proves."""
        scale = self.denominator * (1 if "is_empty" in leaf else self._unit)
        multipliers: list[int] = []
        for row in np.flatnonzero(dual).tolist():
            multiplier = round(Fraction(dual[row]) * scale / Fraction(2) ** self._row_digits[row])
            if multiplier > 0 or (multiplier and self._programme.rows[row][2]):
                multipliers += (row, multiplier)
        found = {"multipliers": multipliers, **leaf}
        return found, leaf_value(self._programme, box, found, self.denominator)

    def _undecided(self, node: _Node) -> int | None:
        """Return a variable whose value is not yet fixed; None if a single point is left.

        This is for nodes that no multipliers close although their point is integral or missing,
        because the numbers differ too much in size for floating point.

        Raises
        ------
        NotProved
            If the rounded point is feasible and better than the target.
        """
        if node.point is not None:
            self._require_no_better(node.point)
        upper = self._programme.upper
        boxes = (node.box.get(column, (0, most)) for column, most in enumerate(upper))
        undecided = [column for column, (low, high) in enumerate(boxes) if low < high]
        cost = self._programme.cost
        return max(undecided, key=lambda column: abs(cost[column]), default=None)

    def _require_no_better(self, point: FloatArray) -> None:
        programme = self._programme
        values = zip(programme.names, map(int, np.rint(point).tolist()), strict=True)
        try:
            cost = cost_of(programme, {name: value for name, value in values if value})
        except Refuted:
            return
        if not self._is_enough(cost):
            raise NotProved(f"a better point exists, with cost {float(cost):.12g}")

    def _is_enough(self, cost: Fraction) -> bool:
        """Return whether a cost proves the target, after rounding up in integer programmes."""
        return cost > self._enough if self._programme.is_integral else cost >= self._enough

    def _decided_leaf(self, box: Box) -> JsonObject:
        """Return the leaf for a node with one point, which costs enough or violates a row."""
        for row, (coefficients, right, is_equation) in enumerate(self._programme.rows):
            left = sum(each * box.get(column, (0, 0))[0] for column, each in coefficients.items())
            if left < right:
                return {"multipliers": [row, self.denominator], "is_empty": True}
            if is_equation and left > right:
                return {"multipliers": [row, -self.denominator], "is_empty": True}
        return {"multipliers": []}

    def _branching(self, node: _Node) -> int | None:
        """Return the most promising variable by strong branching.

        Candidates are fractional and occur in many rows: large jobs keep the trees of fleets small.
        """
        assert node.point is not None, "only solved nodes are branched on"
        point = node.point
        costly = sorted(
            node.fractional,
            key=lambda column: (
                column not in self._first,
                -min(point[column] % 1, 1 - point[column] % 1) * self._rows_of[column],
            ),
        )[:MOST_CANDIDATES]
        if costly[0] in self._first:
            costly = [column for column in costly if column in self._first]
        if len(costly) == 1:
            return costly[0]

        def gain(column: int) -> float:
            low, high = node.box.get(column, (0, self._programme.upper[column]))
            middle = math.floor(point[column])
            sides = [
                self._solved({**node.box, column: side}).value - node.value
                for side in ((low, middle), (middle + 1, high))
            ]
            limit = float(self._enough / self._unit) - node.value + 1
            worse, better = sorted(max(1e-6, min(limit, side)) for side in sides)
            return worse * better

        return max(costly, key=gain)
