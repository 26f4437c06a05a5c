"""No replay of any scheme on any cluster is below the bound of the reading that covers it.

What is drawn: `tests.lyra_opt.simulation.product`.
"""

from collections import Counter

import numpy as np
import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.bounds.scope import Reading
from lyra_opt.simulation.bounds.whole import whole_bound
from lyra_opt.simulation.scheme import OwnScheme
from lyra_opt.simulation.tenure import Forever, Rounds
from tests.draws import sampled
from tests.lyra_opt.simulation.product import draw, prepared

TOLERANCE = 1e-8
"""Rounds count a job as complete that has a billionth of its work left."""


def readings_of(drawn):
    """Return the readings that permit all that a scheme does.

    Whoever is stopped without a checkpoint starts anew, where the tenure is for ever; policies of
    one's own may move jobs from pool to pool at one moment.
    """
    loses_work = isinstance(drawn.tenure, Forever)
    if loses_work and not isinstance(drawn.scheme, OwnScheme):
        return [Reading.RESTART, Reading.CONSERVED]
    return [Reading.CONSERVED]


def require_above_bounds(drawn, kernel):
    """Check mean JCT and queuing, weighted and not; return how near the bound on JCT is."""
    jct_s = np.array([run.jct_s for run in kernel.runs])
    queued_s = np.array([run.queued_s for run in kernel.runs])
    weights = np.array([run.job.weight * (run.order % 3) for run in kernel.runs])
    copy_efficiency = None
    if kernel.policy.forks and isinstance(drawn.tenure, Rounds):
        copy_efficiency = drawn.tenure.copy_efficiency
    nearest = 0.0
    for reading in readings_of(drawn):
        for weight in (None, weights) if weights.any() else (None,):
            found = whole_bound(
                kernel.workload,
                kernel.cluster,
                reading=reading,
                plan=drawn.plan,
                speed=kernel.speed,
                copy_efficiency=copy_efficiency,
                weight=weight,
                passes=15,
            )
            jct_mean_s = float(np.average(jct_s, weights=weight))
            queue_mean_s = float(np.average(queued_s, weights=weight))
            slack_s = TOLERANCE * jct_mean_s
            of = f"seed {drawn.seed} ({drawn.kind}), {reading}"
            assert found.jct_mean_bound_s <= jct_mean_s + slack_s, f"mean JCT of {of}"
            assert found.queue_mean_bound_s <= queue_mean_s + slack_s, f"mean queuing of {of}"
            excess_s = jct_mean_s - found.least_run_mean_s
            assert found.excess_mean_bound_s <= excess_s + slack_s, f"excess of {of}"
            nearest = max(nearest, found.jct_mean_bound_s / jct_mean_s)
    return nearest


@pytest.mark.parametrize("seeds", sampled([(range(3, 10_000, 293),), (range(10_000),)], 2))
def test_no_replay_is_below_its_bound(seeds):
    """Protects the statement of the bound: for which schemes it holds, at which speeds."""
    readings = Counter()
    near = []
    for seed in seeds:
        drawn = draw(seed)
        try:
            kernel = prepared(drawn, ()).run()
        except UserError:
            continue
        if kernel.policy.tuned is not None or kernel.policy.packs:
            continue  # no bound applies: such jobs can run faster than the workload says
        near.append(require_above_bounds(drawn, kernel))
        readings[tuple(readings_of(drawn))] += 1
    # The bounds say something, of schemes of both readings.
    assert len(readings) == 2
    assert np.mean(near) > 0.5
