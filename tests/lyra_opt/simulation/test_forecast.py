"""Forecasts of the inference cluster's demand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lyra_opt.core.errors import UserError
from lyra_opt.simulation.forecast import Autoregressive, Oracle, find_forecaster, forecaster_names
from tests.lyra_opt.simulation.demands import DAY, SHARES, STEP_S, demand_of, demands, sine
from tests.tables import tables

ALL = pytest.mark.parametrize("name", forecaster_names())
BLIND = pytest.mark.parametrize("name", [n for n in forecaster_names() if n != "oracle"])


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


TABLE = tables(__file__)["by_hand"]


@pytest.mark.parametrize("why", TABLE)
def test_by_hand(why):
    """Forecasts of so many steps at a time, both counted in steps of the demand."""
    case = TABLE[why]
    forecaster = find_forecaster(case["forecaster"])
    if "window" in case:
        forecaster = replace(forecaster, window=case["window"])
    demand = demand_of(case["shares"], case["step_s"])
    for step, expected in case["forecasts"]:
        found = forecaster.predict(demand, step * case["step_s"], len(expected))
        assert found == pytest.approx(expected)


def test_autoregression_finds_the_recurrence_of_a_sine():
    demand = sine(4)
    # A sine obeys x[t+1] = 2 cos(w) x[t] - x[t-1] + constant: two coefficients would do.
    time_s = (2 * DAY + 100) * STEP_S
    forecast = Autoregressive().predict(demand, time_s, 12)
    assert forecast == pytest.approx(Oracle().predict(demand, time_s, 12), abs=1e-6)


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
