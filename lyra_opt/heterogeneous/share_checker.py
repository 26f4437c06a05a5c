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
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.heterogeneous.instance import Instance, TimeShares
    from lyra_opt.heterogeneous.share_numbers import Ratio

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
        self._instance, self._solution = instance, solution
        self._numbers = ShareNumbers(instance)
        self._names = tuple(instance.gpus_of_type)
        self._of_job = [solution.shares.get(job.id, {}) for job in instance.jobs]
        flat, self._over = over_power_of_two(
            share for shares in self._of_job for share in shares.values()
        )
        places = {name: place for place, name in enumerate(self._names)}
        numbers = iter(flat)
        self._shares = [
            [(places.get(name), next(numbers)) for name in shares] for shares in self._of_job
        ]

    def violations(self) -> list[str]:
        """Return the rules that the shares break, deadlines among them; O(jobs types)."""
        return self._broken_rules() or self._jobs_too_slow()

    def objective(self) -> float:
        """Return what valid shares are worth, exact until it is rounded; O(jobs types)."""
        jobs, objective, numbers = self._instance.jobs, self._instance.objective, self._numbers
        if objective is Objective.FINISH_TIME_FAIRNESS:
            number, over = greatest(
                numbers.finish_time_ratio(place, throughput)
                for place, throughput in enumerate(self._throughputs())
            )
            return number / over
        if objective is Objective.MAKESPAN_SHARE:
            steps, steps_over = over_power_of_two(job.steps for job in jobs)
            number, over = greatest(
                (of_job * rate_over, rate)
                for of_job, (rate, rate_over) in zip(steps, self._throughputs(), strict=True)
            )
            return number / (over * steps_over)
        weights, weight_over = over_power_of_two(job.weight for job in jobs)
        if objective is Objective.MAX_MIN_SHARE:
            equal = map(numbers.equal_throughput, range(len(jobs)))
            number, over = least(
                (job.gang * rate * equal_over, rate_over * weight * equal_rate)
                for job, weight, (rate, rate_over), (equal_rate, equal_over) in zip(
                    jobs, weights, self._throughputs(), equal, strict=True
                )
            )
            return number * weight_over / over
        of_type = [0] * len(self._names)
        for weight, rates, shares in zip(weights, numbers.rates, self._shares, strict=True):
            for place, share in shares:
                assert place is not None, "the shares are valid"
                of_type[place] += weight * rates[place] * share
        price = [Fraction(1)] * len(self._names)
        if objective is Objective.COST:
            price = [Fraction(kind.price_per_hour) for kind in self._instance.gpu_types]
        total = sum((steps / of for steps, of in zip(of_type, price, strict=True)), Fraction(0))
        return float(total / (weight_over * numbers.rate_over * self._over))

    def _throughputs(self) -> Iterator[Ratio]:
        """Yield the steps a second of each job on its shares, each on a single server."""
        over = self._numbers.rate_over * self._over
        for rates, shares in zip(self._numbers.rates, self._shares, strict=True):
            yield sum(rates[place] * share for place, share in shares if place is not None), over

    def _broken_rules(self) -> list[str]:
        """Return which shares are no shares of this instance, and what has more than there is."""
        instance = self._instance
        violations = [
            f"job {job!r} is not in the instance"
            for job in self._solution.shares
            if job not in instance.job_position
        ]
        most = (1 + SHARE_TOLERANCE) * self._over
        held = [0] * len(self._names)
        for job, rates, shares, names in zip(
            instance.jobs, self._numbers.rates, self._shares, self._of_job, strict=True
        ):
            total = 0
            for (place, share), name in zip(shares, names, strict=True):
                total += share
                if place is None:
                    violations.append(f"job {job.id!r}: GPU type {name!r} is not in the instance")
                    continue
                if share and not rates[place]:
                    violations.append(
                        f"job {job.id!r} has a share of {name!r}, where it cannot run"
                    )
                held[place] += job.gang * share
            if total * most.denominator > most.numerator:
                violations.append(
                    f"job {job.id!r}: its shares sum to {total / self._over:.12g}, above 1"
                )
        for there, gpu_s in zip(instance.gpus_of_type.items(), held, strict=True):
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
                for job, (rate, _) in zip(jobs, self._throughputs(), strict=True)
                if not rate
            ]
        if objective is not Objective.COST:
            return []
        violations = []
        for job, (rate, over) in zip(jobs, self._throughputs(), strict=True):
            needed = least_throughput(job)
            if needed is None:
                violations.append(f"job {job.id!r}: its deadline is over")
            elif needed and rate < needed * (1 - SHARE_TOLERANCE) * over:
                violations.append(
                    f"job {job.id!r} does {rate / over:.12g} steps/s, but its deadline asks for "
                    f"{float(needed):.12g}"
                )
        return violations
