"""The pricing oracle and the dual bound: exact, and never below the optimum."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.result import Limits
from lyra_opt.core.solver import find_solver
from lyra_opt.heterogeneous.bounds import utility_prices
from lyra_opt.heterogeneous.bounds.utility_prices import PricedRounds, PricingOracle, price_bound
from lyra_opt.heterogeneous.checker import due_steps, worth
from lyra_opt.heterogeneous.heuristics.hadar.solver import certify_hadar
from lyra_opt.testing.strategies import heterogeneous_instances
from tests.draws import draws
from tests.lyra_opt.heterogeneous.heuristics.cases import instance_of, job, proved_optimum
from tests.reference.rounds import takings

UTILITIES = heterogeneous_instances(objective="utility", max_rounds=3)
PRICES = st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0])


def drawn_prices(data, instance):
    shape = PricingOracle(instance).shape
    count = int(np.prod(shape))
    drawn = data.draw(st.lists(PRICES, min_size=count, max_size=count))
    return np.array(drawn).reshape(shape)


def placements(instance, job):
    """Return every placement of a gang by cells, by plain enumeration."""
    cells = {
        (server, kind): of_server.gpus[gpu_type.name]
        for server, of_server in enumerate(instance.servers)
        for kind, gpu_type in enumerate(instance.gpu_types)
        if gpu_type.name in of_server.gpus
    }
    taken = takings(job.gang, list(cells.values()))
    return [
        {cell: count for cell, count in zip(cells, counts, strict=True) if count}
        for counts in taken
    ]


def best_payoff(instance, job, prices):
    """Return the answer to the pricing problem by trying every schedule by its speeds."""
    options = []
    for number in range(instance.horizon_rounds):
        cheapest = {0.0: 0.0}
        if number >= instance.first_round(job):
            for placement in placements(instance, job):
                types = {instance.gpu_types[kind].name for _, kind in placement}
                servers = {server for server, _ in placement}
                rate = job.rate(types, is_spread=len(servers) > 1)
                cost = sum(prices[number, s, k] * count for (s, k), count in placement.items())
                if rate:
                    cheapest[rate] = min(cost, cheapest.get(rate, np.inf))
        options.append(list(cheapest.items()))
    best = 0.0
    for last in range(instance.first_round(job), instance.horizon_rounds):
        value = float(worth(instance, job, last))
        for chosen in product(*options[: last + 1]):
            steps = sum(rate for rate, _ in chosen) * instance.round_s
            if steps >= float(due_steps(job)) * (1 - 1e-12):
                best = max(best, value - sum(cost for _, cost in chosen))
    return best


@draws(80)
@given(data=st.data())
def test_the_pricing_problem_is_solved_exactly(data):
    """Against every schedule, with spread gangs and mixed types, at arbitrary prices."""
    instance = data.draw(heterogeneous_instances(objective="utility", forking=False, max_rounds=3))
    prices = drawn_prices(data, instance)
    oracle = PricingOracle(instance)
    priced = PricedRounds(oracle, prices)
    for each in instance.jobs:
        purchase = oracle.buy(each, priced)
        assert purchase.is_exact
        assert purchase.payoff == pytest.approx(best_payoff(instance, each, prices), abs=1e-12)
        cost = float((oracle.usage(purchase.entries) * prices).sum())
        assert purchase.worth - cost == pytest.approx(purchase.payoff, abs=1e-12)


@draws(60)
@given(data=st.data())
def test_any_prices_bound_the_optimum(data):
    """Weak duality, with forking too, against brute force."""
    instance = data.draw(UTILITIES)
    optimum = proved_optimum(instance)
    bound = price_bound(instance, drawn_prices(data, instance), 0.0)
    assert optimum <= bound.value <= bound.at_given_prices


@draws(40)
@given(instance=UTILITIES)
def test_a_relaxed_oracle_still_bounds(instance):
    """Labels that are merged promise more, never less."""
    prices = np.full(PricingOracle(instance).shape, 0.05)
    exact = price_bound(instance, prices, 0.0).at_given_prices
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(utility_prices, "MOST_LABELS", 2)
        relaxed = price_bound(instance, prices, 0.0).at_given_prices
    assert relaxed >= exact * (1 - 1e-12)


def test_the_bound_is_tight_where_jobs_compete():
    """Two equal jobs and one GPU: alone each is worth 1, together 1.5, and the dual says so."""
    instance = instance_of(
        [{"a": 1}], [job("x", 1), job("y", 1)], objective="utility", horizon_rounds=3
    )
    certificate = certify_hadar(instance, np.random.default_rng(0))
    assert certificate.utility == pytest.approx(1.5)
    assert certificate.bound.value == pytest.approx(1.5, rel=0.05)
    hadar = find_solver("heterogeneous", "hadar")
    result = hadar.solve(instance, limits=Limits(), rng=np.random.default_rng(0))
    assert result.dual_bound == certificate.bound.value
    assert "2 alpha" in result.message
