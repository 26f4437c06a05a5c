"""Find proofs for instances of the preemption problem: of an optimum, or of infeasibility.

This module need not be trusted. `lyra_opt.proofs.preemption_stand_alone` checks each proof and
shares no code with solvers. It also builds the programmes that this module searches.
"""

from __future__ import annotations

from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import UserError
from lyra_opt.core.stopwatch import require_time
from lyra_opt.proofs.preemption_stand_alone import MOST_OPEN, Cluster, Programme, Refuted, check
from lyra_opt.proofs.prover import NotProved, Prover, proof_head
from lyra_opt.proofs.stand_alone import ProofProgramme

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lyra_opt.core.documents import JsonObject
    from lyra_opt.proofs.preemption_stand_alone import Row

    Point = dict[str, int]

LARGE = 256
"""Rows with a larger coefficient are scaled for the search."""


def proof_of_optimum(
    document: JsonObject, answer: JsonObject, terms: Mapping[str, int]
) -> JsonObject:
    """Return the proof that no solution of a preemption instance is better than a given one.

    Parameters
    ----------
    document
        The instance as read from its file.
    answer
        The solution as an object of ``solve --format json``.
    terms
        The values of the objective's terms for this solution; a missing term is 0.

    Raises
    ------
    UserError
        If a better solution exists, or no proof was found.
    OutOfTimeError
        If the time limit in force is reached.

    Notes
    -----
    Complexity: one branch and bound (`lyra_opt.proofs.prover.Prover`) for each domain and each term
    above 0. A domain is finished as soon as one of its trees proves more than its term's value.
    """
    with _checked(document) as (cluster, proof):
        home = _home(cluster, {entry["node"] for entry in answer["placements"]})
        bound = {key: terms.get(key, 0) for key in cluster.terms}
        proof |= {"kind": "trees", "bound": bound, "solution": None, "domains": []}
        for domain in cluster.domains:
            programme = Programme(cluster, domain)
            if domain == home:
                point = _completed(programme, _decisions(cluster, programme, answer))
                if programme.values_at(point) != bound:
                    raise NotProved("a better solution exists, which loses or moves fewer pods")
                proof["solution"] = {"domain": domain, "variables": point}
            proof["domains"].append(list(_trees(programme, bound)))
    return proof


def proof_of_infeasibility(document: JsonObject, blocking: Collection[str] = ()) -> JsonObject:
    """Return the proof that a preemption instance has no solution, by counting if possible.

    Parameters
    ----------
    document
        The instance as read from its file.
    blocking
        Ids of the gangs that block the demand: it would fit if all of them left, and not if any of
        them stayed. Empty if they are not known. Only proofs by counting contain them.

    Raises
    ------
    UserError
        If a solution exists, or no proof was found.
    OutOfTimeError
        If the time limit in force is reached.

    Notes
    -----
    Complexity of counting: O(nodes * (resources + shapes) + pods), for each blocking gang.
    Otherwise, one branch and bound for each domain.
    """
    with _checked(document) as (cluster, proof):
        table = cluster.shortages(cluster.fixed)
        if table:
            shown = list(blocking) if len(blocking) <= MOST_OPEN else []
            proof |= {"kind": "counting", "table": table, "blocking": shown}
        else:
            every = [list(_trees(Programme(cluster, domain), None)) for domain in cluster.domains]
            proof |= {"kind": "trees", "bound": None, "solution": None, "domains": every}
    return proof


@contextmanager
def _checked(document: JsonObject) -> Iterator[tuple[Cluster, JsonObject]]:
    """Provide the instance and an incomplete proof; check the proof when the block ends."""
    name = document.get("name", "unnamed")
    proof = proof_head(name, document)
    try:
        yield Cluster(document), proof
        check(document, proof)
    except (NotProved, Refuted, ValueError) as error:
        raise UserError(f"cannot prove the answer of {name}: {error}") from None


def _home(cluster: Cluster, nodes: set[str]) -> Any:
    """Return the first domain that contains all nodes with pending pods."""
    domains = cluster.domains.items()
    return next(name for name, inside in domains if nodes <= {node["id"] for node in inside})


def _decisions(cluster: Cluster, programme: Programme, answer: JsonObject) -> Point:
    """Return the variables that an answer determines, with names as in the checker."""
    ones = [f"gang {name!r} lost" for name in answer["lost_gangs"]]
    ones += [f"node {name!r} emptied" for name in (*answer["emptied_nodes"], *cluster.closed)]
    point = dict.fromkeys(ones, 1)
    kind_of = {
        programme.columns[column][0]: kind
        for kind, alike in enumerate(programme.kinds.values())
        for column, _ in alike
    }
    for key in ("lost_pods", "moved_pods", "placements"):
        for entry in answer[key]:
            if key == "placements":
                names = [f"shape {entry.get('shape', 'pod')!r} on {entry['node']!r}"]
            else:
                names = [f"gang {entry['gang']!r} group {entry.get('group', 0)} {key[:-5]}"]
            if key == "moved_pods":
                names.append(f"kind {kind_of[names[0]]} on {entry['to']!r}")
            for name in names:
                point[name] = point.get(name, 0) + entry.get("count", 1)
    return point


def _completed(programme: Programme, decisions: Point) -> Point:
    """Return the point with the given decisions, and the least values of the other variables.

    Lost pods without a variable are left out, because their loss makes no room.
    """
    values = [decisions.get(name, 0) for name, _, _ in programme.columns]
    for column, (name, gang, adds) in enumerate(programme.columns):
        if not gang and (adds or name.startswith("domain ")):  # counts what decisions imply
            for row, right, _ in programme.rows:
                if row.get(column, 0) > 0:
                    missing = right - sum(each * values[other] for other, each in row.items())
                    values[column] += max(0, -(-missing // row[column]))
    pairs = zip(programme.columns, values, strict=True)
    return {name: value for (name, _, _), value in pairs if value}


def _trees(programme: Programme, bound: Mapping[str, int] | None) -> Iterator[JsonObject]:
    """Yield the trees of a domain for a bound, or for infeasibility if the bound is None.

    Rows that limit earlier terms are added to the programme.
    """
    for key, cost in (programme.terms if bound is not None else {"": {}}).items():
        value = 1 if bound is None else bound[key]
        if value:
            require_time()
            try:
                tree = _tree(programme, cost, value)
            except NotProved as error:
                raise NotProved(f"{key}: {error}" if key else str(error)) from None
            yield tree
            if programme.proved_cost(cost, tree) > value:
                return
        if cost:
            limit = {column: -each for column, each in cost.items()}
            programme.rows.append((limit, -value, False))


def _tree(programme: Programme, cost: Row, value: int) -> JsonObject:
    """Return a tree which proves that a cost is at least `value`.

    If the programme has no feasible point, the tree proves that it is above the value.
    """
    rows = programme.rows
    for number, (row, right, _) in enumerate(rows):
        if sum(each * programme.upper[column] for column, each in row.items() if each > 0) < right:
            return {"denominator": 1, "nodes": [{"multipliers": [number, value + 1]}]}
    searched = ProofProgramme(1)
    searched.names = [name for name, _, _ in programme.columns]
    searched.upper = programme.upper
    searched.cost = [cost.get(column, 0) for column in range(len(programme.upper))]
    # The search divides rows with large coefficients, such as bytes, by a power of two.
    sizes = [max((abs(each) for each in row.values()), default=0) for row, _, _ in rows]
    digits = [size.bit_length() if size > LARGE else 0 for size in sizes]
    for (row, right, equal), shift in zip(rows, digits, strict=True):
        by = Fraction(1, 2**shift)
        shifted = {column: each * by for column, each in row.items()} if shift else row
        searched.rows.append((shifted, right * by, equal))
    prover = Prover(searched, Fraction(value))
    prover.prove()
    most = max(digits, default=0)
    scale = prover.denominator * 2**most
    nodes: list[JsonObject] = []
    for node in prover.nodes:
        if "branch" in node:
            nodes.append(node)
            continue
        # The multipliers of an empty leaf prove at least 1 / scale for a cost of 0. Multiplied by
        # this factor, they prove more than the value.
        factor = (value + 1) * scale if node.get("is_empty") else 1
        flat = node["multipliers"]
        pairs = zip(flat[::2], flat[1::2], strict=True)
        shown = [(row, each * factor * 2 ** (most - digits[row])) for row, each in pairs]
        nodes.append({"multipliers": [each for pair in shown for each in pair]})
    return {"denominator": scale, "nodes": nodes}
