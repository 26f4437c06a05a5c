"""The heterogeneous problem as one object: its file formats, checker and dual bound."""

import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lyra_opt.core.pictures import Drawing
from lyra_opt.core.problem import Problem
from lyra_opt.heterogeneous.checker import Report, check
from lyra_opt.heterogeneous.heuristics.policy import RoundPolicy
from lyra_opt.heterogeneous.heuristics.policy_solver import RoundPolicySolver
from lyra_opt.heterogeneous.instance import (
    SHARE_OBJECTIVES,
    Instance,
    Objective,
    Placement,
    RoundEntry,
    RoundSchedule,
    Solution,
    TimeShares,
)


class HeterogeneousProblem(Problem):
    """The problem of allocating several types of GPU to gangs."""

    size_name = "jobs"
    variants = Objective
    variants_in_s = (Objective.MAKESPAN, Objective.MEAN_JCT, Objective.MAKESPAN_SHARE)
    default_solvers = {  # noqa: RUF012
        **dict.fromkeys(Objective, "priced-progress"),
        **dict.fromkeys(SHARE_OBJECTIVES, "lp-sifting"),
        Objective.UTILITY: "hadar",
    }
    witnesses = ("cpsat", "pulp-highs", "lp-highs", "lp-glop")
    instance_format = "lyra-opt/heterogeneous"
    instance_class = Instance
    solution_classes = (RoundSchedule, TimeShares)
    report_class = Report

    def solver_of(self, policy: RoundPolicy | Callable[[], RoundPolicy]) -> RoundPolicySolver:
        """Return a solver that runs a round-based policy."""
        return RoundPolicySolver(policy)

    def answer(self, instance: Instance, solution: Solution) -> Mapping[str, Any]:
        """Return a solution's part of ``solve --format json``: entries by round, or time shares."""
        types = [gpu_type.name for gpu_type in instance.gpu_types]
        if isinstance(solution, TimeShares):
            return _shares_in_order(instance, types, solution)
        servers = {server.id: position for position, server in enumerate(instance.servers)}

        def in_file_order(placement: Placement) -> Placement:
            return {
                server: {
                    name: placement[server][name] for name in types if name in placement[server]
                }
                for server in sorted(placement, key=servers.__getitem__)
            }

        def place(entry: RoundEntry) -> tuple[int, int, list[int]]:
            held = sorted(servers[server] for server in entry.gpus)
            return entry.round, instance.job_position[entry.job], held

        return {
            "allocation": [
                {"job": entry.job, "round": entry.round, "gpus": in_file_order(entry.gpus)}
                for entry in sorted(solution.entries, key=place)
            ]
        }

    def check(self, instance: Instance, solution: Solution) -> Report:
        """Recompute the feasibility and the objective of a solution."""
        return check(instance, solution)

    def dual_bound(self, instance: Instance) -> float:
        """Return a proved upper bound if the objective is maximised, else a lower bound."""
        from lyra_opt.heterogeneous.bounds.dual_bound import dual_bound

        return dual_bound(instance)

    def proof_point(self, instance: Instance, solution: Solution) -> Mapping[str, float] | None:
        """Return the values of the variables in proofs, by name, for given time shares.

        The level is rounded to the worse side. Proofs for schedules in rounds have no solution.
        """
        if not isinstance(solution, TimeShares):
            return None
        point: dict[str, float] = defaultdict(float)
        for job, shares in solution.shares.items():
            for name, share in shares.items():
                point[f"job {job} type {name}"] += share
        for job, others in solution.packed.items():
            for other, shares in others.items():
                pair = " beside ".join(sorted((job, other), key=instance.job_position.__getitem__))
                for name, share in shares.items():
                    point[f"job {pair} type {name}"] += share
        point = {name: share for name, share in point.items() if share}
        if instance.objective not in (Objective.THROUGHPUT, Objective.COST):
            level = check(instance, solution).objective
            assert level is not None, "a valid solution has an objective"
            worse = math.inf if instance.objective.sense == "min" else 0.0
            point["level"] = math.nextafter(float(level), worse)
        return point

    def proof_slack(self, instance: Instance) -> float:
        """Return the relative gap that a proof may leave, which covers the checker's tolerances."""
        is_shares = instance.objective in SHARE_OBJECTIVES
        return instance.variant.proof_gap if is_shares else super().proof_slack(instance)

    def drawing_of(self, instance: Instance, solutions: Mapping[str, Solution]) -> Drawing:
        """Return a drawing of valid solutions, keyed by solver name, or of the instance alone."""
        from lyra_opt.heterogeneous.plot import drawing_of

        return drawing_of(instance, solutions)


def _shares_in_order(
    instance: Instance, types: Sequence[str], solution: TimeShares
) -> dict[str, Any]:
    """Return nonzero shares in file order; add the key `packed` if pairs have shares."""
    ids = [job.id for job in instance.jobs]

    def by_job(shares: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        found = {
            job: {name: shares[job][name] for name in types if shares[job].get(name)}
            for job in ids
            if job in shares
        }
        return {job: of_types for job, of_types in found.items() if of_types}

    packed = {job: by_job(solution.packed[job]) for job in ids if job in solution.packed}
    packed = {job: others for job, others in packed.items() if others}
    return {"allocation": by_job(solution.shares), **({"packed": packed} if packed else {})}


PROBLEM = HeterogeneousProblem()
