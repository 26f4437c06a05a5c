"""Linear programmes over shares of time, by an interior point method made for their structure.

Each job has few rows of its own (its time and its need), and only the GPUs, one row a type, tie
jobs together. So the normal equations fall into small blocks, one a job, and a dense rest of one
row a type: a step costs O(jobs * types^2). No code is shared with any library of linear
programming. What is returned is not believed: `lyra_opt.heterogeneous.shares.programme` makes
bounds of the prices, valid for any.

Source: S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM Journal
on Optimization 2, 1992; the elimination is derived.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from lyra_opt.heterogeneous.shares.programme import ShareProgramme

    FloatArray = NDArray[np.float64]

MOST_ITERATIONS = 100
SMALLEST_GAP = 1e-11
"""Relative gap of the primal and the dual value at which it stops."""
LARGEST_RESIDUAL = 1e-11
PATIENCE = 8
NEARLY_DONE = 1e6
"""Near the end, how many steps may pass in which gap and residuals do not halve; where there is no
interior rounding leaves no more to be had."""
STEP_TO_BOUNDARY = 0.9995


@dataclass(frozen=True, slots=True)
class InteriorPoint:
    """Where the method ended.

    Parameters
    ----------
    shares
        Shape (jobs, types), nearly feasible.
    level
        The variable v; 0 in a programme without one.
    need_price
        Shape (jobs,): price of `ShareProgramme.need` of each job, at least 0.
    gpu_price
        Shape (types,): price of all GPUs of a type for the whole time, over their number.
    need_slack
        Shape (jobs,): by how much each job is above its need, above 0. Of it and the price one
        goes to 0, and the other does not if the optimum lets it.
    iterations
        Steps taken.
    is_done
        Whether gap and residuals are small; not so where time ran out or rounding stopped it.
    """

    shares: FloatArray
    level: float
    need_price: FloatArray
    gpu_price: FloatArray
    need_slack: FloatArray
    iterations: int
    is_done: bool


def solve_by_interior_point(
    programme: ShareProgramme, is_over: Callable[[], bool] = lambda: False
) -> InteriorPoint:
    """Return a nearly optimal point, in the interior of the optimal face, and its prices.

    Parameters
    ----------
    programme
        With a feasible point; without one the method does not come to an end by itself.
    is_over
        Asked before each step whether to stop.

    Notes
    -----
    Time O(jobs * types^2) a step, some 15 to 40 steps.
    """
    scaled = _Scaled(programme)
    state = scaled.start()
    iterations, best, best_merit, patience = 0, state, np.inf, PATIENCE
    while iterations < MOST_ITERATIONS:
        merit = scaled.merit(state)
        is_slow = best_merit / 2 <= merit and best_merit < NEARLY_DONE
        patience = patience - 1 if is_slow else PATIENCE
        if merit < best_merit:
            best, best_merit = state, merit
        if best_merit <= 1.0 or not patience or is_over():
            break
        stepped = scaled.step(state)
        if stepped is None:
            break
        state = stepped
        iterations += 1
    return InteriorPoint(
        shares=best.x.copy(),
        level=best.v * scaled.level_scale,
        need_price=best.beta * scaled.gain_scale / scaled.row_scale,
        gpu_price=best.gpu_price * scaled.gain_scale / programme.gpus,
        need_slack=best.p * scaled.row_scale,
        iterations=iterations,
        is_done=best_merit <= 1.0,
    )


@dataclass(slots=True)
class _State:
    """Primal x, s, p, w, v; dual mu, beta, gpu_price; reduced costs z of x."""

    x: FloatArray
    s: FloatArray
    p: FloatArray
    w: FloatArray
    v: float
    mu: FloatArray
    beta: FloatArray
    gpu_price: FloatArray
    z: FloatArray


class _Scaled:
    r"""The programme with all coefficients at most 1.

    .. math::
        \max \sum g_{jk} x_{jk} + h v,\quad \sum_{k \in K_i} x_{jk} + s_{ji} = m_i,\quad
        \sum_k a_{jk} x_{jk} - q_j v - p_j = d_j,\quad \sum_j u_{jk} x_{jk} + w_k = 1
    """

    def __init__(self, programme: ShareProgramme) -> None:
        self.usable = programme.usable
        self.has_level = programme.has_level
        jobs = len(programme.gang)
        largest = np.where(self.usable, programme.value, 0.0).max(axis=1)
        self.row_scale = np.where(largest > 0, largest, 1.0)
        self.a = np.where(
            self.usable & programme.has_need[:, None],
            programme.value / self.row_scale[:, None],
            0.0,
        )
        q = programme.level / self.row_scale
        self.level_scale = 1.0 / float(q.max()) if self.has_level else 1.0
        self.q = q * self.level_scale if self.has_level else np.zeros(jobs)
        self.has_need = programme.has_need
        self.group, self.member, self.m = programme.group, programme.member, programme.limit
        self.d = np.where(self.has_need, programme.need / self.row_scale, 0.0)
        gain = np.where(self.usable, programme.gain, 0.0)
        if self.has_level:
            self.h = float(jobs)
            self.gain_scale = self.level_scale / self.h
        else:
            self.h = 0.0
            self.gain_scale = float(gain.max()) or 1.0
        self.g = gain / self.gain_scale if not self.has_level else np.zeros_like(gain)
        self.u = np.where(self.usable, programme.gang[:, None] / programme.gpus[None, :], 0.0)

    def start(self) -> _State:
        """Return a point with all slacks well above 0, feasible where there is a level."""
        types = self.a.shape[1]
        crowd = np.maximum(self.u.sum(axis=0), 1.0)
        part = np.minimum(self.m[self.group] / types, 1.0 / crowd)
        x = np.where(self.usable, 0.5 * part[None, :], 0.0)
        s = self.m[None, :] - x @ self.member
        w = 1.0 - (self.u * x).sum(axis=0)
        reached = (self.a * x).sum(axis=1) - self.d
        v = 0.0
        beta = np.where(self.has_need, 1.0, 0.0)
        if self.has_level:
            rises = self.q > 0
            v = float((reached[rises] / self.q[rises]).min()) - 1.0
            beta *= self.h / float(self.q[self.has_need].sum())
        p = np.where(self.has_need, np.maximum(reached - self.q * v, 1e-2), 1.0)
        gpu_price = np.ones(types)
        worth = self.g + self.a * beta[:, None] - self.u * gpu_price[None, :]
        mu = np.stack(
            [
                1.0 + np.maximum(0.0, worth[:, self.group == group].max(axis=1))
                for group in range(len(self.m))
            ],
            axis=1,
        )
        z = np.where(self.usable, mu[:, self.group] - worth, 1.0)
        return _State(x, s, p, w, v, mu, beta, gpu_price, z)

    def residuals(self, t: _State) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray, float]:
        """Return what is missing of the rows share, need, GPUs, and of the columns x, v."""
        share = self.m[None, :] - t.x @ self.member - t.s
        need = np.where(
            self.has_need, self.d - (self.a * t.x).sum(axis=1) + self.q * t.v + t.p, 0.0
        )
        gpus = 1.0 - (self.u * t.x).sum(axis=0) - t.w
        column = (
            t.mu[:, self.group]
            - self.g
            - self.a * t.beta[:, None]
            + self.u * t.gpu_price[None, :]
            - t.z
        )
        level = -self.h + float((self.q * t.beta).sum()) if self.has_level else 0.0
        return share, need, gpus, np.where(self.usable, column, 0.0), level

    def merit(self, t: _State) -> float:
        """Return gap and residuals over what they may be; at most 1 is done."""
        primal = float((self.g * t.x).sum()) + self.h * t.v
        dual = float((t.mu @ self.m).sum() + t.gpu_price.sum() - (self.d * t.beta).sum())
        share, need, gpus, column, level = self.residuals(t)
        residual = max(
            float(np.abs(share).max()),
            float(np.abs(need).max()),
            float(np.abs(gpus).max()),
            float(np.abs(column).max()) / max(1.0, float(t.mu.max())),
            abs(level) / max(1.0, self.h),
        )
        gap = self._complementarity(t) / max(abs(primal), abs(dual), 1e-12)
        return max(gap / SMALLEST_GAP, residual / LARGEST_RESIDUAL)

    def _complementarity(self, t: _State) -> float:
        return float(
            (t.x * t.z)[self.usable].sum()
            + (t.s * t.mu).sum()
            + (t.p * t.beta)[self.has_need].sum()
            + (t.w * t.gpu_price).sum()
        )

    def step(self, t: _State) -> _State | None:
        """Return the next point; None where rounding leaves none."""
        products = int(self.usable.sum()) + t.s.size + int(self.has_need.sum()) + len(t.w)
        mean = self._complementarity(t) / products
        with np.errstate(all="ignore"):
            theta_x = np.where(self.usable, t.x / t.z, 0.0)
            theta_s, theta_w = t.s / t.mu, t.w / t.gpu_price
            theta_p = np.where(self.has_need, t.p / np.where(self.has_need, t.beta, 1.0), 1.0)
            equations = _Equations(self, theta_x, theta_s, theta_p, theta_w)
            residuals = self.residuals(t)
            affine = equations.solve(
                t, residuals, (-t.x * t.z, -t.s * t.mu, -t.p * t.beta, -t.w * t.gpu_price)
            )
            if affine is None:
                return None
            moved = self._moved(t, affine, *self._lengths(t, affine, 1.0))
            sigma = (self._complementarity(moved) / products / mean) ** 3
            target = sigma * mean
            corrected = equations.solve(
                t,
                residuals,
                (
                    target - t.x * t.z - affine.x * affine.z,
                    target - t.s * t.mu - affine.s * affine.mu,
                    target - t.p * t.beta - affine.p * affine.beta,
                    target - t.w * t.gpu_price - affine.w * affine.gpu_price,
                ),
            )
        if corrected is None:
            return None
        return self._moved(t, corrected, *self._lengths(t, corrected, STEP_TO_BOUNDARY))

    def _lengths(self, t: _State, d: _State, share: float) -> tuple[float, float]:
        """Return how far the primal and the dual may go."""
        usable, need = self.usable, self.has_need
        primal = min(
            _to_boundary(t.x[usable], d.x[usable]),
            _to_boundary(t.s, d.s),
            _to_boundary(t.p[need], d.p[need]),
            _to_boundary(t.w, d.w),
        )
        dual = min(
            _to_boundary(t.z[usable], d.z[usable]),
            _to_boundary(t.mu, d.mu),
            _to_boundary(t.beta[need], d.beta[need]),
            _to_boundary(t.gpu_price, d.gpu_price),
        )
        return min(1.0, share * primal), min(1.0, share * dual)

    def _moved(self, t: _State, d: _State, primal: float, dual: float) -> _State:
        return _State(
            x=t.x + primal * d.x,
            s=t.s + primal * d.s,
            p=t.p + primal * d.p,
            w=t.w + primal * d.w,
            v=t.v + primal * d.v,
            mu=t.mu + dual * d.mu,
            beta=t.beta + dual * d.beta,
            gpu_price=t.gpu_price + dual * d.gpu_price,
            z=t.z + dual * d.z,
        )


class _Equations:
    """Newton's equations at a point, factored once for both of Mehrotra's directions.

    With multipliers (-mu, beta, -gpu_price) of the rows share, need and GPUs, the normal equations
    are ``A Theta A^T``; the two rows of a job are eliminated by hand.
    """

    def __init__(
        self,
        scaled: _Scaled,
        theta_x: FloatArray,
        theta_s: FloatArray,
        theta_p: FloatArray,
        theta_w: FloatArray,
    ) -> None:
        self.scaled = scaled
        self.theta = (theta_x, theta_s, theta_p, theta_w)
        a, u, group, member = scaled.a, scaled.u, scaled.group, scaled.member
        self.share = theta_x @ member + theta_s
        self.mean = (theta_x * a) @ member / self.share
        # Q - N^2 / S as a sum of squares: a difference would lose all digits near the end.
        spread = a - self.mean[:, group]
        squares = (theta_x * spread**2).sum(axis=1) + (theta_s * self.mean**2).sum(axis=1)
        self.need = theta_p + squares
        # Rows of the GPUs after the rows share, then need, are taken out.
        self.share_gpus = theta_x * u  # (jobs, types)
        self.need_gpus = theta_x * spread * u
        types = u.shape[1]
        rest = -(member @ member.T) * ((self.share_gpus / self.share[:, group]).T @ self.share_gpus)
        rest -= (self.need_gpus / self.need[:, None]).T @ self.need_gpus
        rest[np.diag_indices(types)] += (theta_x * u**2).sum(axis=0) + theta_w
        self.level = -scaled.q  # column of v in the rows need
        border = -(self.need_gpus * (self.level / self.need)[:, None]).sum(axis=0)
        corner = -float((self.level**2 / self.need).sum())
        if scaled.has_level:
            self.matrix = np.block(
                [[rest, border[:, None]], [border[None, :], np.array([[corner]])]]
            )
        else:
            self.matrix = rest

    def solve(
        self,
        t: _State,
        residuals: tuple[FloatArray, FloatArray, FloatArray, FloatArray, float],
        targets: tuple[FloatArray, FloatArray, FloatArray, FloatArray],
    ) -> _State | None:
        """Return the direction in which each product changes by its target."""
        scaled = self.scaled
        a, u, usable, has_need = scaled.a, scaled.u, scaled.usable, scaled.has_need
        theta_x, theta_s, theta_p, theta_w = self.theta
        share, need, gpus, column, level = residuals
        to_x, to_s, to_p, to_w = targets
        # dx = to / z - theta (rd - A^T dl), where l are the multipliers.
        free_x = np.where(usable, to_x / t.z, 0.0) - theta_x * column
        free_s, free_w = to_s / t.mu, to_w / t.gpu_price
        free_p = np.where(has_need, to_p / np.where(has_need, t.beta, 1.0), 0.0)
        right_share = share - free_x @ scaled.member - free_s
        right_need = np.where(has_need, need - (a * free_x).sum(axis=1) + free_p, 0.0)
        right_gpus = gpus - (u * free_x).sum(axis=0) - free_w
        right_need = right_need - (self.mean * right_share).sum(axis=1)
        rest = (
            right_gpus
            - (self.share_gpus * (right_share / self.share)[:, scaled.group]).sum(axis=0)
            - (self.need_gpus * (right_need / self.need)[:, None]).sum(axis=0)
        )
        if scaled.has_level:
            # A_v^T dl = rd_v, with the sign of the column of v: sum -q dbeta = level.
            last = level - float((self.level * right_need / self.need).sum())
            rest = np.append(rest, last)
        try:
            found = np.linalg.solve(self.matrix, rest)
        except np.linalg.LinAlgError:
            return None
        if not np.isfinite(found).all():
            return None
        types = u.shape[1]
        d_gpus, d_level = found[:types], float(found[types]) if scaled.has_level else 0.0
        d_need = (right_need - self.need_gpus @ d_gpus - self.level * d_level) / self.need
        d_need = np.where(has_need, d_need, 0.0)
        paid = (self.share_gpus * d_gpus[None, :]) @ scaled.member
        d_share = (right_share - paid) / self.share - self.mean * d_need[:, None]
        change = d_share[:, scaled.group] + a * d_need[:, None] + u * d_gpus[None, :]
        d_x = np.where(usable, free_x + theta_x * change, 0.0)
        return _State(
            x=d_x,
            s=free_s + theta_s * d_share,
            p=np.where(has_need, free_p - theta_p * d_need, 0.0),
            w=free_w + theta_w * d_gpus,
            v=d_level,
            mu=-d_share,
            beta=d_need,
            gpu_price=-d_gpus,
            z=np.where(usable, column - change, 0.0),
        )


def _to_boundary(values: FloatArray, change: FloatArray) -> float:
    """Return how far values above 0 may go until one of them is 0."""
    falls = change < 0
    if not falls.any():
        return np.inf
    with np.errstate(over="ignore"):
        return float((values[falls] / -change[falls]).min())
