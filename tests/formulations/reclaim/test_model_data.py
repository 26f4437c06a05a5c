"""Starts in both forms of the model, without any backend."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.formulations.reclaim.model_data import plain, strengthened
from lyra_opt.reclaim import Solution
from lyra_opt.testing.strategies import reclaim_instances, reclaim_servers_of
from tests.optima import objective

FORMS = [plain, strengthened]


def satisfies(model, x, y):
    """Whether x and y satisfy every constraint, read off their inequalities."""
    return (
        sum(x) == model.reclaim_servers
        and all(y[j] >= x[s] for j, s in model.preempting)
        and all(
            sum(count * x[s] for s, count in job.losses)
            <= job.slack + (job.all_losses - job.slack) * y[j]
            for j, job in ((j, model.jobs[j]) for j in model.thresholds)
        )
        and all(x[s] >= x[t] for s, t in model.dominance)
    )


def value(model, x, y):
    """Return the model's objective."""
    costs = sum(cost for cost, chosen in zip(model.server_cost, x, strict=True) if chosen)
    return costs + sum(
        job.weight for job, preempted in zip(model.jobs, y, strict=True) if preempted
    )


@pytest.mark.parametrize("form", FORMS)
@given(instance=reclaim_instances(), data=st.data())
def test_start_is_feasible_and_costs_no_more_than_the_choice_it_was_made_of(form, instance, data):
    chosen = data.draw(reclaim_servers_of(instance))
    model = form(instance)
    solution = Solution.of_positions(instance, chosen)
    start = model.start(solution)
    x, y = start[: len(model.positions)], start[len(model.positions) :]
    assert satisfies(model, x, y)
    cost, moved = objective(instance, solution), value(model, x, y)
    assert moved == cost if form is plain else moved <= cost


def test_forms_of_the_rigid_model(figure_5):
    """Job b (server s3) is folded; d (s5, s6) and c (s4, s5) make s4 and s6 alike but for cost."""
    assert [len(plain(figure_5).preempting), len(plain(figure_5).thresholds)] == [7, 0]
    model = strengthened(figure_5)
    assert model.server_cost == (0, 0, 1, 0, 0, 0)
    assert [job.losses for job in model.jobs] == [
        ((0, 1), (1, 1)),
        ((3, 1), (4, 1)),
        ((4, 1), (5, 1)),
    ]
    assert model.dominance == ((0, 1), (3, 4), (5, 4))
