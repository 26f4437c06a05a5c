"""Forecasts of the inference cluster's demand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.forecast import (
    Autoregressive,
    LastValue,
    Oracle,
    Seasonal,
    find_forecaster,
    forecaster_names,
)
from tests.lyra_opt.simulation.demands import DAY, SHARES, STEP_S, demand_of, demands, sine

ALL = pytest.mark.parametrize("name", forecaster_names())
BLIND = pytest.mark.parametrize("name", [n for n in forecaster_names() if n != "oracle"])
HALF_A_DAY_S = 43_200.0  # with a day of two steps, seasons show in short series


@ALL
@given(demand=demands(), step=st.integers(0, 60), steps=st.integers(0, 5))
def test_one_share_for_each_step(name, demand, step, steps):
    forecast = find_forecaster(name).predict(demand, step * STEP_S, steps)
    assert len(forecast) == steps
    assert all(type(share) is float and 0 <= share <= 1 for share in forecast)


@BLIND
@given(data=st.data(), day_steps=st.sampled_from([2, 4, 288]))
def test_only_the_oracle_sees_the_future(name, data, day_steps):
    shares = data.draw(st.lists(SHARES, min_size=2, max_size=60))
    known = data.draw(st.integers(1, len(shares) - 1))
    future = data.draw(st.lists(SHARES, min_size=1, max_size=5))
    step_s = 86_400 / day_steps
    forecasts = [
        find_forecaster(name).predict(demand_of(series, step_s), (known - 0.5) * step_s, 3)
        for series in (shares, shares[:known] + future)
    ]
    assert forecasts[0] == forecasts[1]


@ALL
def test_a_forecast_does_not_depend_on_what_was_asked_before(name):
    demand, other = sine(3), demand_of([0.25, 0.5])
    used = find_forecaster(name)
    for step in (2 * DAY + 100, 0, DAY + 7, 5, DAY):
        used.predict(other, step * STEP_S, 2)
        fresh = find_forecaster(name).predict(demand, step * STEP_S, 4)
        assert used.predict(demand, step * STEP_S, 4) == fresh


@ALL
def test_a_constant_demand_is_forecast_exactly(name):
    demand = demand_of([0.375] * (2 * DAY))
    for step in (0, 3, DAY + 5):
        forecast = find_forecaster(name).predict(demand, step * STEP_S, 3)
        assert forecast == pytest.approx([0.375] * 3, abs=1e-12)


def test_the_oracle_goes_round():
    assert Oracle().predict(demand_of([0.1, 0.2, 0.3]), STEP_S, 4) == [0.3, 0.1, 0.2, 0.3]


def test_last_value_by_hand():
    assert LastValue().predict(demand_of([0.1, 0.2, 0.3]), 1.5 * STEP_S, 2) == [0.2, 0.2]


def test_seasonal_takes_the_week_then_the_day_then_the_last_value():
    demand = demand_of([step / 100 for step in range(20)], HALF_A_DAY_S)
    seasonal = Seasonal()
    # On the first day only the step that is a day after step 0 has a pattern to follow.
    assert seasonal.predict(demand, 0.0, 2) == [0.0, 0.0]
    assert seasonal.predict(demand, HALF_A_DAY_S, 2) == [0.0, 0.01]
    assert seasonal.predict(demand, 5 * HALF_A_DAY_S, 3) == [0.04, 0.05, 0.04]
    # From step 14 on there is a week.
    assert seasonal.predict(demand, 13 * HALF_A_DAY_S, 2) == [0.0, 0.01]
    assert seasonal.predict(demand, 12 * HALF_A_DAY_S, 2) == [0.11, 0.0]


def test_seasonal_is_exact_where_days_repeat():
    demand = sine(3)
    assert Seasonal().predict(demand, DAY * STEP_S, 3) == list(demand.busy_share[1:4])
    for step in range(DAY, 3 * DAY - 1):
        assert Seasonal().predict(demand, step * STEP_S, 1) == [demand.busy_share[step + 1]]
    assert Seasonal().predict(demand, DAY / 4 * STEP_S, 1) != [demand.busy_share[DAY // 4 + 1]]


def test_steps_longer_than_a_day_make_seasonal_the_last_value():
    demand = demand_of([0.1, 0.2, 0.3], 200_000.0)
    assert Seasonal().predict(demand, 200_000.0, 2) == [0.2, 0.2]


def test_autoregression_finds_the_recurrence_of_a_sine():
    demand = sine(4)
    # A sine obeys x[t+1] = 2 cos(w) x[t] - x[t-1] + constant: two coefficients would do.
    time_s = (2 * DAY + 100) * STEP_S
    forecast = Autoregressive().predict(demand, time_s, 12)
    assert forecast == pytest.approx(Oracle().predict(demand, time_s, 12), abs=1e-6)


def test_autoregression_by_hand_with_a_window_of_one():
    # x[t+1] = 1 - x[t] for a day of 10 steps, then a jump that the fit has not seen.
    shares = [0.25, 0.75] * 5 + [0.25, 0.5]
    demand = demand_of(shares, 8640.0)
    forecast = Autoregressive(window=1).predict(demand, 11 * 8640.0, 2)
    assert forecast == pytest.approx([0.5, 0.5])
    forecast = Autoregressive(window=1).predict(demand, 10 * 8640.0, 2)
    assert forecast == pytest.approx([0.75, 0.25])


def test_autoregression_stays_within_the_cluster():
    # x[t+1] = 1.2 x[t] for a day of 10 steps: beyond 1 after 2 more.
    demand = demand_of([0.13 * 1.2**step for step in range(11)], 8640.0)
    forecast = Autoregressive(window=1).predict(demand, 10 * 8640.0, 4)
    assert forecast == pytest.approx([0.13 * 1.2**11, 1.0, 1.0, 1.0])


def test_autoregression_waits_for_enough_history():
    demand = sine(2)
    for step in (0, 20, DAY - 1):
        (forecast,) = Autoregressive().predict(demand, step * STEP_S, 1)
        assert forecast == demand.busy_share[step]
    (forecast,) = Autoregressive().predict(demand, DAY * STEP_S, 1)
    assert forecast != demand.busy_share[DAY]


def test_autoregression_is_fitted_once_a_day(monkeypatch):
    fitted = []
    original = Autoregressive._fit

    def count(self, demand, fit_step):
        fitted.append(fit_step)
        return original(self, demand, fit_step)

    monkeypatch.setattr(Autoregressive, "_fit", count)
    forecaster, demand = Autoregressive(), sine(3)
    for step in range(3 * DAY):
        forecaster.predict(demand, step * STEP_S, 1)
    assert fitted == [0, DAY, 2 * DAY]


def test_autoregression_forgets_what_is_older_than_its_training():
    old = [0.9, 0.1] * (DAY // 2)
    recent = list(sine(2).busy_share)
    time_s = (3 * DAY - 50) * STEP_S
    short = Autoregressive(training_days=0.9).predict(demand_of(old + recent), time_s, 3)
    other = Autoregressive(training_days=0.9).predict(demand_of([0.5] * DAY + recent), time_s, 3)
    assert short == other


def test_an_unknown_name_is_answered_with_the_known_ones():
    message = "forecaster 'lstm': unknown forecaster; known: oracle, last-value, seasonal, auto"
    with pytest.raises(UserError, match=message):
        find_forecaster("lstm")
