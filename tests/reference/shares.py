"""Shares of time in the plainest way: every vertex of what is possible, and what lies between two.

For one job or two. What they reach together is the convex hull of what the vertices are, in the
plane of their two throughputs, and what is best there lies on a segment between two vertices.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import combinations
from typing import Any

import numpy as np

from tests.reference.drawing import INFEASIBLE, UNKNOWN, Document, require

MOST_JOBS = 2
MOST_SYSTEMS = 3000
TOLERANCE = 1e-6
EXACT_TOLERANCE = Fraction(1, 10**6)
"""By which the rules of shares and deadlines may be broken; documented."""
HALVINGS = 100


def gpus_by_type(document: Document) -> dict[str, int]:
    """Return the GPUs of each type."""
    names = [kind["name"] for kind in document["gpu_types"]]
    return {
        name: sum(server["gpus"].get(name, 0) for server in document["servers"]) for name in names
    }


def usable(document: Document, job: Document) -> list[str]:
    """Return the types on which a job can have a share."""
    counts = gpus_by_type(document)
    return [
        kind
        for kind, count in counts.items()
        if job["throughput"].get(kind, 0.0) > 0 and job["gang"] <= count
    ]


def equal_rate(document: Document, job: Document) -> float:
    """Return the steps a second on each type by its part of all GPUs."""
    counts = gpus_by_type(document)
    total = sum(counts.values())
    kinds = usable(document, job)
    return float(sum(job["throughput"][kind] * counts[kind] / total for kind in kinds))


def isolated_rate(document: Document, job: Document) -> float:
    """Return the steps a second on an equal part of the cluster."""
    counts = gpus_by_type(document)
    parts = len(document["jobs"]) * job["gang"]
    scale = max(1.0, sum(counts.values()) / parts)
    kinds = usable(document, job)
    return float(sum(job["throughput"][kind] * counts[kind] / parts / scale for kind in kinds))


def needed_rate(job: Document) -> float | None:
    """Return what a deadline asks for, None if it is over."""
    utility = job.get("utility", {"kind": "inverse_jct"})
    if utility["kind"] != "deadline":
        return 0.0
    left_s = utility["deadline_s"] - job.get("elapsed_s", 0.0)
    return float(job["steps"] / left_s) if left_s > 0 else None


def vertices(document: Document, part_of_needs: float) -> np.ndarray | None:
    """Return the vertices of the possible shares by (vertex, job and usable type).

    `part_of_needs` is how much is asked of what deadlines need. None if there are too many.
    """
    jobs, counts = document["jobs"], gpus_by_type(document)
    columns = [(j, kind) for j, job in enumerate(jobs) for kind in usable(document, job)]
    rows: list[list[float]] = []
    most: list[float] = []
    for j in range(len(jobs)):
        rows.append([float(of == j) for of, _ in columns])
        most.append(1.0)
    for kind, count in counts.items():
        if any(on == kind for _, on in columns):
            rows.append([jobs[j]["gang"] / count * (on == kind) for j, on in columns])
            most.append(1.0)
    for j, job in enumerate(jobs if part_of_needs else []):
        need = needed_rate(job)
        if need is None:
            return np.empty((0, len(columns)))
        need *= part_of_needs
        if need:
            rates = {kind: job["throughput"][kind] for kind in usable(document, job)}
            scale = max(need, *rates.values())
            rows.append([-rates[kind] / scale if of == j else 0.0 for of, kind in columns])
            most.append(-need / scale)
    rows += [list(row) for row in -np.eye(len(columns))]
    most += [0.0] * len(columns)
    chosen = np.array(list(combinations(range(len(rows)), len(columns))))
    if len(chosen) > MOST_SYSTEMS:
        return None
    left, right = np.array(rows), np.array(most)
    systems = left[chosen]
    regular = np.abs(np.linalg.det(systems)) > 1e-12
    points = np.linalg.solve(systems[regular], right[chosen[regular]][..., None])[..., 0]
    possible = (points @ left.T <= right + 1e-9).all(axis=1)
    return np.unique(points[possible].round(12), axis=0)


def optimum(document: Document) -> Any:
    """Return the best value; time exponential in jobs times types.

    Where the tolerance of deadlines makes a difference, it is not known.
    """
    if document["objective"] != "cost":
        return best(document, 0.0)
    easier, harder = (best(document, 1 + change) for change in (-10 * TOLERANCE, 10 * TOLERANCE))
    if easier == harder:
        return easier
    is_close = (
        isinstance(easier, float)
        and isinstance(harder, float)
        and easier - harder <= TOLERANCE * easier
    )
    return best(document, 1.0) if is_close else UNKNOWN


def best(document: Document, part_of_needs: float) -> Any:
    """Return the best value if so much is asked of what deadlines need."""
    jobs, variant = document["jobs"], document["objective"]
    points = vertices(document, part_of_needs) if len(jobs) <= MOST_JOBS else None
    if points is None:
        return UNKNOWN
    if not len(points):
        return INFEASIBLE
    columns = [(j, kind) for j, job in enumerate(jobs) for kind in usable(document, job)]
    rate = np.array([jobs[j]["throughput"][kind] for j, kind in columns])
    weight = np.array([jobs[j].get("weight", 1.0) for j, _ in columns])
    if variant in ("throughput", "cost"):
        prices = {kind["name"]: kind.get("price_per_hour", 1.0) for kind in document["gpu_types"]}
        price = np.array([prices[kind] if variant == "cost" else 1.0 for _, kind in columns])
        return float((points @ (rate * weight / price)).max())
    rates = np.stack(
        [points @ (rate * [of == j for of, _ in columns]) for j in range(len(jobs))], axis=1
    )
    if variant == "max_min_share":
        scales = [job["gang"] / job.get("weight", 1.0) / equal_rate(document, job) for job in jobs]
        return _best_between(rates * scales, lambda levels: levels)
    if variant == "makespan_share":
        return 1 / _best_between(rates / [job["steps"] for job in jobs], lambda levels: levels)
    return -_best_between(rates, lambda each: -_ratios(document, each))


def _ratios(document: Document, rates: np.ndarray) -> np.ndarray:
    """Return the ratios of finish times by (point, job)."""
    found = []
    for j, job in enumerate(document["jobs"]):
        with np.errstate(divide="ignore"):
            left_s = job["steps"] / np.maximum(rates[:, j], 0.0)
        isolated_s = job["steps"] / isolated_rate(document, job)
        found.append(
            (job.get("elapsed_s", 0.0) + left_s) / (job.get("isolated_elapsed_s", 0.0) + isolated_s)
        )
    return np.stack(found, axis=1)


def _best_between(points: np.ndarray, levels: Callable[[np.ndarray], np.ndarray]) -> float:
    """Return the greatest least level, each of which rises with its coordinate.

    Along a segment one coordinate rises and the other falls, or one end is best: where the two
    levels meet is found by halving.
    """
    best = float(levels(points).min(axis=1).max())
    if points.shape[1] == 1 or len(points) < 2:
        return best
    first, second = np.triu_indices(len(points), 1)
    begin, end = points[first], points[second]
    low, high = np.zeros(len(begin)), np.ones(len(begin))
    rises = end[:, 0] > begin[:, 0]  # then the second coordinate falls, where it matters
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        found = levels(begin + (end - begin) * middle[:, None])
        is_short = (found[:, 0] < found[:, 1]) == rises
        low, high = np.where(is_short, middle, low), np.where(is_short, high, middle)
    found = levels(begin + (end - begin) * low[:, None])
    return max(best, float(found.min(axis=1).max()))


def measured(
    document: Document,
    shares: Mapping[str, Mapping[str, float]],
    packed: Mapping[tuple[str, str], Mapping[str, float]] | None = None,
) -> dict[str, Any]:
    """Return what shares are worth; `packed` has those of two jobs that share GPUs."""
    packed, counts, total = packed or {}, gpus_by_type(document), Fraction(0)
    jobs = {job["id"]: job for job in document["jobs"]}
    gained = {name: dict.fromkeys(counts, Fraction(0)) for name in jobs}
    busy, used = dict.fromkeys(jobs, total), dict.fromkeys(counts, total)
    for name, of_job in shares.items():
        kinds = usable(document, jobs[name])
        for kind, share in of_job.items():
            require(share == 0 or (share > 0 and kind in kinds), f"{name} cannot run on {kind}")
            gained[name][kind] += Fraction(jobs[name]["throughput"].get(kind, 0)) * Fraction(share)
            busy[name] += Fraction(share)
            used[kind] += jobs[name]["gang"] * Fraction(share)
    rates = {
        (each["kind"], each["beside"]): each["throughput"] for each in document.get("packed", [])
    }
    for pair, of_types in packed.items():
        for kind, share in of_types.items():
            for one, other in (pair, pair[::-1]):
                job = jobs[one]
                rate = rates.get((job.get("kind"), jobs[other].get("kind")), {}).get(kind, 0)
                is_there = rate and job["gang"] <= counts[kind]
                require(not share or is_there, f"{one} cannot run beside {other} on {kind}")
                gained[one][kind] += Fraction(rate) * Fraction(share)
                busy[one] += Fraction(share)
            used[kind] += jobs[pair[0]]["gang"] * Fraction(share)
    for name, part in busy.items():
        require(part <= 1 + EXACT_TOLERANCE, f"shares of {name}")
    for kind, count in counts.items():
        require(used[kind] <= count * (1 + EXACT_TOLERANCE), f"GPUs of {kind}")
    return {"objective": worth(document, {name: gained[name] for name in jobs})}


def worth(document: Document, gained: Mapping[str, Mapping[str, Fraction]]) -> Fraction:
    """Return what steps a second by job and type are worth."""
    variant, jobs, counts = document["objective"], document["jobs"], gpus_by_type(document)
    had = {name: sum(of_types.values(), Fraction(0)) for name, of_types in gained.items()}
    gpus = sum(counts.values())

    def rate(job: Document, part: Fraction) -> Fraction:
        """Return the steps a second on so large a part of the GPUs of each type."""
        kinds = usable(document, job)
        return sum(Fraction(job["throughput"][kind]) * counts[kind] for kind in kinds) * part

    if variant == "max_min_share":
        return min(
            job["gang"]
            / Fraction(job.get("weight", 1.0))
            * had[job["id"]]
            / rate(job, Fraction(1, gpus))
            for job in jobs
        )
    if variant in ("makespan_share", "finish_time_fairness"):
        require(all(had.values()), "a job never finishes")
        left_s = {job["id"]: Fraction(job["steps"]) / had[job["id"]] for job in jobs}
        if variant == "makespan_share":
            return max(left_s.values())
        ratios = []
        for job in jobs:
            part = Fraction(1, max(gpus, len(jobs) * job["gang"]))
            alone_s = Fraction(job["steps"]) / rate(job, part)
            finish_s = Fraction(job.get("elapsed_s", 0.0)) + left_s[job["id"]]
            isolated_s = Fraction(job.get("isolated_elapsed_s", 0.0)) + alone_s
            ratios.append(finish_s / isolated_s)
        return max(ratios)
    prices = {kind["name"]: Fraction(1) for kind in document["gpu_types"]}
    if variant == "cost":
        prices = {
            kind["name"]: Fraction(kind.get("price_per_hour", 1.0))
            for kind in document["gpu_types"]
        }
        for job in jobs:
            utility = job.get("utility", {"kind": "inverse_jct"})
            if utility["kind"] == "deadline":
                left = Fraction(utility["deadline_s"]) - Fraction(job.get("elapsed_s", 0.0))
                due = Fraction(job["steps"]) * (1 - EXACT_TOLERANCE)
                is_met = left > 0 and had[job["id"]] * left >= due
                require(is_met, f"{job['id']} misses its deadline")
    return sum(
        Fraction(job.get("weight", 1.0)) * gained[job["id"]][kind] / price
        for job in jobs
        for kind, price in prices.items()
    )
