"""The network problem as exact models see it: three forms, their limits, and where to begin."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lyra_opt.core.solver import Unsupported
from lyra_opt.formulations.exact_model import Formulation, best_of
from lyra_opt.formulations.network.gang_data import MOST_COLUMNS, simple_bound
from lyra_opt.formulations.network.patterns.data import (
    PatternModel,
    RelaxedPatterns,
    pattern_columns,
)
from lyra_opt.formulations.network.tiers.data import TierModel, tier_columns
from lyra_opt.network.heuristics.list_placement import ListPlacement
from lyra_opt.network.instance import Objective
from lyra_opt.network.problem import PROBLEM

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.network.instance import Instance

MOST_GPUS_IN_FLOATS = 10**5


def _limits(
    columns: Callable[[Instance], int],
) -> Callable[[Instance, bool], Unsupported | None]:
    """Return what refuses models that would be too large, or inexact in floats."""

    def supports(instance: Instance, in_floats: bool) -> Unsupported | None:
        if (count := columns(instance)) > MOST_COLUMNS:
            return Unsupported(
                f"the model has {count} variables or more; it is built up to {MOST_COLUMNS}"
            )
        if in_floats and instance.free_gpus > MOST_GPUS_IN_FLOATS:
            return Unsupported(
                f"{instance.free_gpus} GPUs are free; the model is exact in floating-point "
                f"arithmetic up to {MOST_GPUS_IN_FLOATS}"
            )
        return None

    return supports


TIERS = Formulation(
    problem=PROBLEM,
    variants=tuple(Objective),
    supports=_limits(tier_columns),
    data=lambda instance, _, in_floats: TierModel.of(instance, in_floats=in_floats),
    begin=best_of(ListPlacement()),
    simple_bound=simple_bound,
    summary="Model of gangs and tiers",
)
PATTERNS = replace(
    TIERS,
    supports=_limits(pattern_columns),
    data=lambda instance, _, in_floats: PatternModel.of(instance, in_floats=in_floats),
    summary="Model of patterns of gangs in racks",
    suffix="-patterns",
)
RELAXED_PATTERNS = replace(
    PATTERNS,
    # The bound is exact whatever the size, so that only the number of variables counts.
    supports=lambda instance, _: PATTERNS.supports(instance, False),
    data=lambda instance, _, in_floats: RelaxedPatterns.of(instance, in_floats=in_floats),
    summary="Linear relaxation of the patterns, a bound alone",
    suffix="",
    is_exact=False,
)
