"""Forecasts of the inference cluster's demand, so that reclaiming can start early.

Lyra (EuroSys 2023, section 6) trains an LSTM with a window of 10 samples to forecast the next
5 minutes. Its data and its weights are not public; here are the plain forecasts that such a
network has to beat, and the oracle that none can.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np

from lyra_opt.core.errors import UserError
from lyra_opt.core.rules import require_integer, require_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from lyra_opt.simulation.workload import InferenceDemand

DAY_S = 86_400
DAYS_OF_A_WEEK = 7


class Forecaster(Protocol):
    """Forecasts the shares of servers that will be busy.

    A forecast is determined by the demand and the moment alone, whatever was asked before, and
    only the oracle looks at steps after the one of that moment.
    """

    @property
    def name(self) -> str:
        """The name that `find_forecaster` and results know it by."""

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Return the busy shares of the steps after that of a moment.

        Parameters
        ----------
        demand
            What the inference cluster needs; its history starts at time 0.
        time_s
            The moment, at least 0. The step it falls into is the newest one known.
        steps
            How many steps to forecast, at least 0.

        Returns
        -------
        list[float]
            One share from 0 to 1 for each step, the nearest first.
        """


@dataclass(frozen=True, slots=True)
class Oracle:
    """Knows the demand: the forecast that no other can beat.

    Source: this project. Complexity O(steps). Guarantee: exact.
    """

    name: ClassVar[str] = "oracle"

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Return the shares of the coming steps; see `Forecaster.predict`."""
        newest = demand.step_of(time_s)
        return [demand.share(newest + ahead) for ahead in range(1, steps + 1)]


@dataclass(frozen=True, slots=True)
class LastValue:
    """Expects the demand to stay where it is (persistence).

    Source: the usual baseline of time-series forecasting. Complexity O(steps). Guarantee: exact
    where nothing changes; on a ramp it lags by the whole horizon.
    """

    name: ClassVar[str] = "last-value"

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Return the newest share for each step; see `Forecaster.predict`."""
        return [demand.at(time_s)] * steps


@dataclass(frozen=True, slots=True)
class Seasonal:
    """Expects what was at the same time a week ago, or a day ago, or else what is now.

    For each step by itself: the latest step known that lies whole weeks before it, if the history
    reaches back so far; otherwise whole days; otherwise the newest share. A day is rounded to
    steps.

    Source: the usual baseline for daily patterns such as that of Lyra's Figure 1 (EuroSys 2023).
    Complexity O(steps). Guarantee: exact from the second day on where days repeat, and from the
    second week on where weeks do; it never learns of a change of level within its season.
    """

    name: ClassVar[str] = "seasonal"

    def predict(self, demand: InferenceDemand, time_s: float, steps: int) -> list[float]:
        """Return the shares one season earlier; see `Forecaster.predict`."""
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
    """Expects a fixed linear combination of the newest shares: AR(window), by least squares.

    The coefficients, and a constant, are fitted to the steps of the last `training_days` at the
    first step of each day (0, 86,400 s, ...) and kept for that day. Steps further ahead are
    forecast one by one, each from the forecasts before it, cut to [0, 1]. Until twice as many
    steps as coefficients are there to fit, that is usually for the first day, it expects the
    newest share.

    Parameters
    ----------
    window
        Shares that a forecast looks at, at least 1; Lyra's LSTM looks at 10.
    training_days
        How far back the fit looks, above 0.

    Raises
    ------
    FieldError
        If a parameter breaks its rule.

    Notes
    -----
    Source: autoregression in place of the LSTM of Lyra (EuroSys 2023), section 6. Complexity
    O(window * steps) a forecast, O(window^2 * training steps) a day. Guarantee: none; where the
    demand jumps it knows no more than the last value.
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
        """Return the constant and the weights, of the oldest share first, fitted for the day."""
        day = _steps_of_a_day(demand)
        fit_step = newest // day * day
        # Kept for speed alone: the fit depends on demand and day, not on what was asked before.
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
    """Return the names that `find_forecaster` knows, the oracle first."""
    return list(_FORECASTERS)


def find_forecaster(name: str) -> Forecaster:
    """Return a new forecaster with its default parameters.

    Raises
    ------
    UserError
        If there is no such forecaster; the message lists those that exist.
    """
    try:
        return _FORECASTERS[name]()
    except KeyError:
        known = ", ".join(forecaster_names())
        raise UserError(f"forecaster {name!r}: no such forecaster; known: {known}") from None


def _steps_of_a_day(demand: InferenceDemand) -> int:
    return max(1, round(DAY_S / demand.step_s))
