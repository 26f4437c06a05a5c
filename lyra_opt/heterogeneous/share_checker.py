"""Recompute what shares of time are worth; see `lyra_opt.heterogeneous.checker`."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from lyra_opt.heterogeneous.instance import Objective
from lyra_opt.heterogeneous.share_numbers import (
    ShareNumbers,
    greatest,
    least,
    least_throughput,
    over_power_of_two,
    whole_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lyra_opt.heterogeneous.instance import Instance, TimeShares

SHARE_TOLERANCE = Fraction(1, 10**6)


class CheckedShares:
    """Shares of time of an instance, with what they break and what they are worth.

    Parameters
    ----------
    instance
        With an objective whose answer is shares.
    solution
        Any shares.
    """

    def __init__(self, instance: Instance, solution: TimeShares) -> None:
        self._instance = instance
        self._numbers = ShareNumbers(instance)
        self._place_of_type = {name: place for place, name in enumerate(instance.gpus_of_type)}
        packed = [shares for others in solution.packed.values() for shares in others.values()]
        self._whole, self._over = whole_numbers(
            [share for shares in (*solution.shares.values(), *packed) for share in shares.values()]
        )
        self._faults: list[str] = []
        # In integers, over `_over` or `_rate_over`: the shares of each job, what gangs hold of each
        # type, the steps a second of each job, and these by job and type.
        self._rate_over = self._numbers.rate_over * self._over
        self._of_job = [0] * len(instance.jobs)
        self._held = [0] * len(self._place_of_type)
        self._throughputs = [0] * len(instance.jobs)
        self._parts: list[tuple[int, int, int]] = []
        for job, shares in solution.shares.items():
            self._add((job,), shares)
        for job, others in solution.packed.items():
            for other, shares in others.items():
                self._add((job, other), shares)

    def _add(self, ids: tuple[str, ...], shares: Mapping[str, float]) -> None:
        """Count shares of a job alone, or of two on the same GPUs."""
        places = []
        for job in ids:
            place = self._instance.job_position.get(job)
            if place is None:
                self._faults.append(f"job {job!r} is not in the instance")
                return
            places.append(place)
        if len(places) == 1:
            members = [(places[0], self._numbers.rates[places[0]])]
        else:
            places.sort()
            rates_of_pair = self._numbers.packed_rates.get((places[0], places[1]))
            if rates_of_pair is None:
                if any(shares.values()):
                    self._faults.append(f"jobs {_names(ids)} cannot share GPUs")
                return
            members = list(zip(places, rates_of_pair, strict=True))
        gang = self._instance.jobs[places[0]].gang
        for name, share in shares.items():
            whole = self._whole[share]
            for place in places:
                self._of_job[place] += whole
            kind = self._place_of_type.get(name)
            if kind is None:
                self._faults.append(f"{_whose(ids)}: GPU type {name!r} is not in the instance")
                continue
            self._held[kind] += gang * whole
            runs = True
            for place, rates in members:
                steps = rates[kind] * whole
                self._throughputs[place] += steps
                self._parts.append((place, kind, steps))
                runs = runs and rates[kind] > 0
            if share and not runs:
                verb, who = ("has", "it") if len(ids) == 1 else ("have", "they")
                self._faults.append(
                    f"{_whose(ids)} {verb} a share of {name!r}, where {who} cannot run"
                )

    def violations(self) -> list[str]:
        """Return the rules that the shares break, deadlines among them; O(jobs + types)."""
        return self._broken_rules() or self._jobs_too_slow()

    def objective(self) -> float:
        """Return what valid shares are worth, exact until it is rounded; O(jobs types)."""
        jobs, objective, numbers = self._instance.jobs, self._instance.objective, self._numbers
        if objective in (Objective.THROUGHPUT, Objective.COST):
            return self._sum()
        rates, rate_over = self._throughputs, self._rate_over
        if objective is Objective.FINISH_TIME_FAIRNESS:
            number, over = greatest(
                numbers.finish_time_ratio(place, (rate, rate_over))
                for place, rate in enumerate(rates)
            )
            return number / over
        if objective is Objective.MAKESPAN_SHARE:
            steps, steps_over = over_power_of_two([job.steps for job in jobs])
            number, over = greatest(zip(steps, rates, strict=True))
            return number * rate_over / (over * steps_over)
        weights, weight_over = over_power_of_two([job.weight for job in jobs])
        number, over = least(
            [
                (job.gang * rate, weight * numbers.on_all(place))
                for place, (job, weight, rate) in enumerate(zip(jobs, weights, rates, strict=True))
            ]
        )
        return number * weight_over * numbers.equal_over / (over * rate_over)

    def _sum(self) -> float:
        """Return the weighted throughput of all jobs, over prices where these are the objective."""
        weights, weight_over = over_power_of_two([job.weight for job in self._instance.jobs])
        of_type = [0] * len(self._held)
        for job, kind, steps in self._parts:
            of_type[kind] += weights[job] * steps
        price = [Fraction(1)] * len(of_type)
        if self._instance.objective is Objective.COST:
            price = [Fraction(kind.price_per_hour) for kind in self._instance.gpu_types]
        total = sum((steps / of for steps, of in zip(of_type, price, strict=True)), Fraction(0))
        return float(total / (weight_over * self._rate_over))

    def _broken_rules(self) -> list[str]:
        """Return which shares are no shares of this instance, and what has more than there is."""
        violations = list(self._faults)
        most = (1 + SHARE_TOLERANCE) * self._over
        numerator, denominator = most.as_integer_ratio()
        for job, total in zip(self._instance.jobs, self._of_job, strict=True):
            if total * denominator > numerator:
                violations.append(
                    f"job {job.id!r}: its shares sum to {total / self._over:.12g}, above 1"
                )
        for there, gpu_s in zip(self._instance.gpus_of_type.items(), self._held, strict=True):
            name, gpus = there
            if gpu_s > gpus * most:
                violations.append(
                    f"GPU type {name!r}: gangs hold {gpu_s / self._over:.12g} GPUs on average, but "
                    f"there are {gpus}"
                )
        return violations

    def _jobs_too_slow(self) -> list[str]:
        """Return which jobs never finish, or not by their deadlines, where that is a rule."""
        jobs, objective = self._instance.jobs, self._instance.objective
        if objective in (Objective.FINISH_TIME_FAIRNESS, Objective.MAKESPAN_SHARE):
            return [
                f"job {job.id!r} has no share, so that it never finishes"
                for job, rate in zip(jobs, self._throughputs, strict=True)
                if not rate
            ]
        if objective is not Objective.COST:
            return []
        violations = []
        over = self._rate_over
        for job, rate in zip(jobs, self._throughputs, strict=True):
            needed = least_throughput(job)
            if needed is None:
                violations.append(f"job {job.id!r}: its deadline is over")
            elif needed and rate < needed * (1 - SHARE_TOLERANCE) * over:
                violations.append(
                    f"job {job.id!r} does {rate / over:.12g} steps/s, but its deadline asks for "
                    f"{float(needed):.12g}"
                )
        return violations


def _names(ids: Iterable[str]) -> str:
    return " and ".join(map(repr, ids))


def _whose(ids: tuple[str, ...]) -> str:
    return f"job{'s' * (len(ids) - 1)} {_names(ids)}"
