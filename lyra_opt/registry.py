"""The built-in components by name: problems, solvers, families, schemes, workloads and others.

This module may import every package, and only says where components are. Each function imports its
components when one of them is first needed. Components of other packages are entry points with the
same group names (`lyra_opt.core.plugins`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.core.built_in import BUILT_IN, REMOVED

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    Objects = Mapping[str, Any]


def _allocation_solvers() -> Objects:
    """Return the toolkit's own heuristics and exact methods for allocation."""
    from lyra_opt.allocation.exact import mckp_core, mckp_dp
    from lyra_opt.allocation.exact.mean_jct import solver
    from lyra_opt.allocation.heuristics import ibm_dp, lookahead, mckp_greedy, policy_solver

    return _solvers_in(mckp_core, mckp_dp, solver, ibm_dp, lookahead, mckp_greedy, policy_solver)


def _allocation_models() -> Objects:
    """Return the exact models for allocation that other libraries solve."""
    from lyra_opt.formulations.allocation import brute_force, cpsat_model, mathopt_model, pulp_model
    from lyra_opt.formulations.allocation.mean_jct import cpsat_model as grid
    from lyra_opt.formulations.allocation.mean_jct import order_tree

    return _solvers_in(brute_force, cpsat_model, mathopt_model, pulp_model, grid, order_tree)


def _heterogeneous_solvers() -> Objects:
    """Return the toolkit's own heuristics and exact methods for the heterogeneous problem."""
    from lyra_opt.heterogeneous.exact.shares import water_filling
    from lyra_opt.heterogeneous.heuristics import gavel, list_schedule, policy_solver
    from lyra_opt.heterogeneous.heuristics.hadar import solver

    return _solvers_in(water_filling, gavel, list_schedule, policy_solver, solver)


def _heterogeneous_models() -> Objects:
    """Return the exact models for the heterogeneous problem that other libraries solve."""
    from lyra_opt.formulations.heterogeneous import brute_force, model
    from lyra_opt.formulations.heterogeneous.shares import mathopt_model
    from lyra_opt.heterogeneous.exact.shares import highs_model
    from lyra_opt.heterogeneous.heuristics import approximate_shares

    return _solvers_in(brute_force, model, mathopt_model, highs_model, approximate_shares)


def _network_solvers() -> Objects:
    """Return the toolkit's own heuristics and exact methods for the network problem."""
    from lyra_opt.network.heuristics import list_placement, policy_solver

    return _solvers_in(list_placement, policy_solver)


def _network_models() -> Objects:
    """Return the exact models for the network problem that other libraries solve."""
    from lyra_opt.formulations.network import brute_force
    from lyra_opt.formulations.network.patterns import model as patterns
    from lyra_opt.formulations.network.tiers import model as tiers

    return _solvers_in(brute_force, patterns, tiers)


def _preemption_solvers() -> Objects:
    """Return the toolkit's own heuristics and exact methods for preemption."""
    from lyra_opt.preemption.exact import solver
    from lyra_opt.preemption.heuristics import (
        drain,
        fast,
        kai,
        karpenter,
        kubernetes,
        kueue,
        slurm,
        volcano,
    )

    return _solvers_in(solver, drain, fast, kai, karpenter, kubernetes, kueue, slurm, volcano)


def _preemption_models() -> Objects:
    """Return the exact models for preemption that other libraries solve."""
    from lyra_opt.formulations.preemption import brute_force, model

    return _solvers_in(brute_force, model)


def _reclaim_solvers() -> Objects:
    """Return the toolkit's own heuristics and exact methods for reclaiming."""
    from lyra_opt.reclaim.exact import solver
    from lyra_opt.reclaim.heuristics import fast, greedy, tabu

    return _solvers_in(solver, fast, greedy, tabu)


def _reclaim_models() -> Objects:
    """Return the exact models for reclaiming that other libraries solve."""
    from lyra_opt.formulations.reclaim import brute_force, cpsat_model, mathopt_model, pulp_model

    return _solvers_in(brute_force, cpsat_model, mathopt_model, pulp_model)


def _allocation_families() -> Objects:
    """Return the instance families for allocation."""
    from lyra_opt.instances import allocation

    return _families_in(allocation)


def _heterogeneous_families() -> Objects:
    """Return the instance families for the heterogeneous problem."""
    from lyra_opt.instances.heterogeneous import offline

    return _families_in(offline)


def _network_families() -> Objects:
    """Return the instance families for the network problem."""
    from lyra_opt.instances.network import epoch

    return _families_in(epoch)


def _preemption_families() -> Objects:
    """Return the instance families for preemption."""
    from lyra_opt.instances.preemption import fleets, solved
    from lyra_opt.instances.preemption.recorded import family

    return _families_in(fleets, solved, family)


def _reclaim_families() -> Objects:
    """Return the instance families for reclaiming."""
    from lyra_opt.instances.reclaim import fleets, placement, set_union, snapshot, solved

    return _families_in(fleets, placement, set_union, snapshot, solved)


def _allocation() -> Objects:
    from lyra_opt.allocation import PROBLEM

    return _by_name(PROBLEM)


def _heterogeneous() -> Objects:
    from lyra_opt.heterogeneous import PROBLEM

    return _by_name(PROBLEM)


def _network() -> Objects:
    from lyra_opt.network import PROBLEM

    return _by_name(PROBLEM)


def _preemption() -> Objects:
    from lyra_opt.preemption import PROBLEM

    return _by_name(PROBLEM)


def _reclaim() -> Objects:
    from lyra_opt.reclaim import PROBLEM

    return _by_name(PROBLEM)


def _schemes() -> Objects:
    """Return the schemes of the simulated cluster."""
    from lyra_opt.simulation.schemes import built_in_schemes

    return _by_name(*built_in_schemes())


def _workloads() -> Objects:
    """Return the built-in generators of job workloads."""
    from lyra_opt.instances.workloads import named
    from lyra_opt.instances.workloads.named import NamedWorkload

    return _by_name(*_all_of(NamedWorkload, named))


def _clusters() -> Objects:
    """Return the clusters with heterogeneous GPUs."""
    from lyra_opt.instances.heterogeneous.clusters import paper_clusters

    return _by_name(*paper_clusters())


def _throughputs() -> Objects:
    """Return the tables of measured throughputs."""
    from lyra_opt.instances.heterogeneous.throughput_files import GAVEL

    return _by_name(GAVEL)


def _formats() -> Objects:
    """Return the file formats of the instance library: catalogues and records."""
    from lyra_opt.instances.library.documents import CATALOGUES, RECORDS

    return {"library": CATALOGUES, "library-record": RECORDS}


def _solver_makers() -> Objects:
    """Return the factories of solvers whose names begin with a backend, such as ``pulp-gurobi``."""
    from lyra_opt.formulations.backends.foreign import MATHOPT, PULP

    return {"mathopt": MATHOPT, "pulp": PULP}


def _snapshot_readers() -> Objects:
    """Return the readers of snapshots of real clusters."""
    from lyra_opt.instances.snapshots.kubernetes import KUBERNETES
    from lyra_opt.instances.snapshots.slurm import SLURM

    return _by_name(KUBERNETES, SLURM)


def _trace_layouts() -> Objects:
    """Return the known layouts of job-trace files, by name."""
    from lyra_opt.instances.workloads.line_formats import GAVEL, SWF
    from lyra_opt.instances.workloads.pai import PAI
    from lyra_opt.instances.workloads.philly import PHILLY
    from lyra_opt.instances.workloads.pollux import ADAPTDL
    from lyra_opt.instances.workloads.published import published_tables
    from lyra_opt.instances.workloads.sacct import SACCT
    from lyra_opt.instances.workloads.tables import OWN

    found = {
        **published_tables(),
        "adaptdl": ADAPTDL,
        "alibaba-pai-2020": PAI,
        "gavel": GAVEL,
        "microsoft-philly": PHILLY,
        "own": OWN,
        "slurm-sacct": SACCT,
        "standard-workload-format": SWF,
    }
    return dict(sorted(found.items()))


def _node_lists() -> Objects:
    """Return the known layouts of node lists, by name."""
    from lyra_opt.instances.heterogeneous.node_lists import node_tables

    return node_tables()


def _scenarios() -> Objects:
    """Return the package that holds the bundled scenario files."""
    from lyra_opt.experiments import scenarios

    return {"lyra-opt": scenarios}


def _all_of(kind: type, *modules: ModuleType) -> list[Any]:
    """Return all module-level objects of a class from the given modules."""
    return [each for module in modules for each in vars(module).values() if isinstance(each, kind)]


def _solvers_in(*modules: ModuleType) -> Objects:
    """Return the solvers of modules: objects, alone or in a tuple, and own classes with a name."""
    from lyra_opt.core.solver import Solver

    found: list[Any] = []
    for module in modules:
        for each in vars(module).values():
            if not isinstance(each, type):
                parts = each if isinstance(each, tuple) else (each,)
                found += [part for part in parts if isinstance(part, Solver)]
            elif issubclass(each, Solver) and each.__module__ == module.__name__:
                found += [each] if hasattr(each, "name") else []
    return _by_problem(*found)


def _families_in(*modules: ModuleType) -> Objects:
    from lyra_opt.instances.family import ParameterisedFamily

    return _by_problem(*_all_of(ParameterisedFamily, *modules))


def _by_name(*objects: Any) -> Objects:
    return {each.name: each for each in objects}


def _by_problem(*objects: Any) -> Objects:
    return {f"{each.problem}.{each.name}": each for each in objects}


BUILT_IN.update(
    {
        "lyra_opt.solvers": {
            "allocation": (_allocation_solvers, _allocation_models),
            "heterogeneous": (_heterogeneous_solvers, _heterogeneous_models),
            "network": (_network_solvers, _network_models),
            "preemption": (_preemption_solvers, _preemption_models),
            "reclaim": (_reclaim_solvers, _reclaim_models),
        },
        "lyra_opt.instance_families": {
            "allocation": (_allocation_families,),
            "heterogeneous": (_heterogeneous_families,),
            "network": (_network_families,),
            "preemption": (_preemption_families,),
            "reclaim": (_reclaim_families,),
        },
        "lyra_opt.clusters": {"": (_clusters,)},
        "lyra_opt.formats": {"": (_formats,)},
        "lyra_opt.node_lists": {"": (_node_lists,)},
        "lyra_opt.problems": {
            "allocation": (_allocation,),
            "heterogeneous": (_heterogeneous,),
            "network": (_network,),
            "preemption": (_preemption,),
            "reclaim": (_reclaim,),
        },
        "lyra_opt.scenarios": {"": (_scenarios,)},
        "lyra_opt.schemes": {"": (_schemes,)},
        "lyra_opt.snapshot_readers": {"": (_snapshot_readers,)},
        "lyra_opt.solver_makers": {"": (_solver_makers,)},
        "lyra_opt.throughputs": {"": (_throughputs,)},
        "lyra_opt.trace_layouts": {"": (_trace_layouts,)},
        "lyra_opt.workloads": {"": (_workloads,)},
    }
)
REMOVED["lyra_opt.solvers"] = {
    "allocation.time-indexed-milp": "was removed in version 0.3; `exact` proves better bounds",
    "heterogeneous.lp-makespan": "was removed in version 0.3; `solve --certify` bounds a makespan",
    "heterogeneous.lp-pdlp": "was removed in version 0.3; use lp-highs or lp-glop",
}
