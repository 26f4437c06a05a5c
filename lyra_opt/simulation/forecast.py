"""Forecasts of the inference cluster's demand, so that reclaiming can start early.

Lyra (EuroSys 2023, section 6) trains an LSTM with a window of 10 samples to forecast the next 5
minutes. Its data and weights are not public. This module has the simple forecasts that such a
network has to beat, and an oracle that no forecast can beat.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import UserError
from lyra_opt.core.numbers import DAY_S
from lyra_opt.core.rules import require_integer, require_number
from lyra_opt.simulation.workload import InferenceDemand

DAYS_OF_A_WEEK = 7


class Forecaster(Protocol):
    """Predicts the share of inference servers that will be busy.

    A forecast depends only on the demand and the time, never on earlier calls. Only the oracle
    looks at later steps.
    """

    @property
    def name(self) -> str:
        """The name of the forecaster in `find_forecaster` and in results."""

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Forecast the busy share of the inference cluster in each of the next `steps` steps.

        Parameters
        ----------
        demand
            Demand of the inference cluster; its history starts at time 0.
        time_s
            Time of the forecast, at least 0. Its step is the last known step.
        steps
            Number of steps to forecast, at least 0.

        Returns
        -------
        list[float]
            One share from 0 to 1 for each step, in order of time.
        """


@dataclass(frozen=True, slots=True)
class Oracle:
    """A forecaster that knows the future demand, so that its forecasts are exact.

    Source: this project. Complexity O(steps). Guarantee: exact.
    """

    name: ClassVar[str] = "oracle"

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Return the true shares of the coming steps; see `Forecaster.predict`."""
        newest = demand.step_of(time_s)
        return [demand.share(newest + ahead) for ahead in range(1, steps + 1)]


@dataclass(frozen=True, slots=True)
class LastValue:
    """Predicts that the demand stays as it is now (persistence).

    Source: the usual baseline of time-series forecasting. Complexity O(steps). Guarantee: exact if
    the demand is constant; on a ramp it lags by the whole horizon.
    """

    name: ClassVar[str] = "last-value"

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Return the current share for each step; see `Forecaster.predict`."""
        return [demand.at(time_s)] * steps


@dataclass(frozen=True, slots=True)
class Seasonal:
    """Predicts the demand at the same time a week ago, else a day ago, else the current demand.

    Each step is forecast separately, from the latest known step that lies whole weeks before it, if
    the history is long enough; otherwise whole days before it; otherwise from the current step. A
    day is rounded to whole steps.

    Source: the usual baseline for daily patterns such as that of Lyra's Figure 1 (EuroSys 2023).
    Complexity O(steps). Guarantee: exact from the second day on if days repeat, and from the second
    week on if weeks repeat; it never notices a change of level within its season.
    """

    name: ClassVar[str] = "seasonal"

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Return, as a forecast, the known busy shares at the same time a week or a day before.

        Without such history it is the current share. See `Forecaster.predict`.
        """
        newest = demand.step_of(time_s)
        day = _steps_of_a_day(demand)
        forecast = []
        for ahead in range(1, steps + 1):
            source = newest
            for season in (DAYS_OF_A_WEEK * day, day):
                same_time = newest + ahead - season * math.ceil(ahead / season)
                if same_time >= 0:
                    source = same_time
                    break
            forecast.append(demand.share(source))
        return forecast


@dataclass(slots=True)
class Autoregressive:
    """Predicts the share of busy servers by autoregression, fitted by least squares.

    A forecast is a linear combination of the latest shares, AR(window). The coefficients and a
    constant are fitted to the steps of the last `training_days` at the first step of each day (0,
    86,400 s, ...) and used for that day. Steps further ahead are forecast one by one from the
    forecasts before them, clipped to [0, 1]. Until the history has twice as many steps as
    coefficients, usually during the first day, it predicts the current share.

    Parameters
    ----------
    window
        Number of latest shares that a forecast uses, at least 1; Lyra's LSTM uses 10.
    training_days
        Length of the history that is fitted, in days, above 0.

    Raises
    ------
    FieldError
        If a parameter breaks its rule.

    Notes
    -----
    Source: autoregression in place of the LSTM of Lyra (EuroSys 2023), section 6. Complexity
    O(window * steps) per forecast, O(window^2 * training steps) per day. Guarantee: none; at a jump
    of the demand it is no better than the last value.
    """

    name: ClassVar[str] = "autoregressive"

    window: int = 10
    training_days: float = 7.0
    _fitted: tuple[InferenceDemand, int, list[float] | None] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        require_integer("window", self.window, minimum=1)
        require_number("training_days", self.training_days, minimum=0, above=True)

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Return the iterated one-step forecasts; see `Forecaster.predict`."""
        newest = demand.step_of(time_s)
        coefficients = self._coefficients(demand, newest)
        if coefficients is None:
            return LastValue().predict(demand, time_s, steps)
        constant, *weights = coefficients
        recent = [demand.share(step) for step in range(newest - self.window + 1, newest + 1)]
        for _ in range(steps):
            latest = recent[-self.window :]
            share = constant + sum(map(float.__mul__, weights, latest))
            recent.append(min(1.0, max(0.0, share)))
        return recent[self.window :]

    def _coefficients(self, demand: InferenceDemand, newest: int) -> list[float] | None:
        """Return the day's fitted coefficients; None if the history is too short for a fit.

        The constant comes first, then the weights, oldest share first.
        """
        day = _steps_of_a_day(demand)
        fit_step = newest // day * day
        # The last fit is kept, because a fit depends only on the demand and the day.
        if self._fitted is None or self._fitted[0] is not demand or self._fitted[1] != fit_step:
            self._fitted = demand, fit_step, self._fit(demand, fit_step)
        return self._fitted[2]

    def _fit(self, demand: InferenceDemand, fit_step: int) -> list[float] | None:
        training_steps = max(1, round(self.training_days * DAY_S / demand.step_s))
        first = max(0, fit_step - training_steps + 1)
        history = np.array(
            [demand.share(step) for step in range(first, fit_step + 1)], dtype=np.float64
        )
        if len(history) - self.window < 2 * (self.window + 1):
            return None
        windows = np.lib.stride_tricks.sliding_window_view(history[:-1], self.window)
        rows = np.column_stack([np.ones(len(windows)), windows])
        solution, *_ = np.linalg.lstsq(rows, history[self.window :], rcond=None)
        return [float(coefficient) for coefficient in solution]


_FORECASTERS: dict[str, Callable[[], Forecaster]] = {
    kind.name: kind for kind in (Oracle, LastValue, Seasonal, Autoregressive)
}


def forecaster_names() -> list[str]:
    """Return the names of all forecasters, the oracle first."""
    return list(_FORECASTERS)


def find_forecaster(name: str) -> Forecaster:
    """Return a new forecaster of this name, with its default parameters.

    Raises
    ------
    UserError
        If there is no such forecaster; the message lists the known names.
    """
    try:
        return _FORECASTERS[name]()
    except KeyError:
        known = unknown_key(name, forecaster_names(), noun="forecaster")
        raise UserError(f"forecaster {name!r}: {known}") from None


def _steps_of_a_day(demand: InferenceDemand) -> int:
    return max(1, round(DAY_S / demand.step_s))
