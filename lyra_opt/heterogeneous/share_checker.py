"""Recompute what shares of time are worth; see `lyra_opt.heterogeneous.checker`."""

from __future__ import annotations

from dataclasses import dataclass, field
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
    from collections.abc import Mapping

    from lyra_opt.heterogeneous.instance import Instance, TimeShares
    from lyra_opt.heterogeneous.share_numbers import Ratio

SHARE_TOLERANCE = Fraction(1, 10**6)


@dataclass(slots=True)
class _SharesOfSet:
    """The shares of a job alone, or of two on the same GPUs.

    Parameters
    ----------
    ids
        Who they are.
    shares
        Type, its place in the file or None if it has none, and the share over a power of two.
    rates
        By place in the file, the rates of the jobs; empty where that is nothing to the shares.
    fault
        What is wrong with the set itself.
    """

    ids: tuple[str, ...]
    shares: list[tuple[str, int | None, int]]
    rates: dict[int, list[int]] = field(default_factory=dict)
    fault: str = ""

    @property
    def name(self) -> str:
        """The jobs in words."""
        return " and ".join(map(repr, self.ids))

    @property
    def whose(self) -> str:
        """The jobs, and that they are jobs."""
        return f"job{'s' * (len(self.ids) - 1)} {self.name}"


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
        sets: list[tuple[tuple[str, ...], Mapping[str, float]]] = [
            ((job,), shares) for job, shares in solution.shares.items()
        ]
        sets += [
            ((job, other), shares)
            for job, others in solution.packed.items()
            for other, shares in others.items()
        ]
        flat, self._over = over_power_of_two(
            share for _, shares in sets for share in shares.values()
        )
        places = {name: place for place, name in enumerate(self._names)}
        numbers = iter(flat)
        self._sets = [
            _SharesOfSet(ids, [(name, places.get(name), next(numbers)) for name in shares])
            for ids, shares in sets
        ]
        for of_set in self._sets:
            self._look_up(of_set)

    def _look_up(self, of_set: _SharesOfSet) -> None:
        """Find the rates of the jobs of a set, or what is wrong with it."""
        known = self._instance.job_position
        unknown = [job for job in of_set.ids if job not in known]
        if unknown:
            of_set.fault = f"job {unknown[0]!r} is not in the instance"
            return
        places = [known[job] for job in of_set.ids]
        if len(places) == 1:
            of_set.rates = {places[0]: self._numbers.rates[places[0]]}
            return
        first, second = sorted(places)
        rates = self._numbers.packed_rates.get((first, second))
        if rates is None:
            if any(share for _, _, share in of_set.shares):
                of_set.fault = f"jobs {of_set.name} cannot share GPUs"
            return
        of_set.rates = {first: rates[0], second: rates[1]}

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
        for of_set in self._sets:
            for job, rates in of_set.rates.items():
                for _, place, share in of_set.shares:
                    assert place is not None, "the shares are valid"
                    of_type[place] += weights[job] * rates[place] * share
        price = [Fraction(1)] * len(self._names)
        if objective is Objective.COST:
            price = [Fraction(kind.price_per_hour) for kind in self._instance.gpu_types]
        total = sum((steps / of for steps, of in zip(of_type, price, strict=True)), Fraction(0))
        return float(total / (weight_over * numbers.rate_over * self._over))

    def _throughputs(self) -> list[Ratio]:
        """Return the steps a second of each job on its shares, each on a single server."""
        steps = [0] * len(self._instance.jobs)
        for of_set in self._sets:
            for job, rates in of_set.rates.items():
                steps[job] += sum(
                    rates[place] * share for _, place, share in of_set.shares if place is not None
                )
        over = self._numbers.rate_over * self._over
        return [(rate, over) for rate in steps]

    def _broken_rules(self) -> list[str]:
        """Return which shares are no shares of this instance, and what has more than there is."""
        instance = self._instance
        violations = []
        most = (1 + SHARE_TOLERANCE) * self._over
        held = [0] * len(self._names)
        of_job = [0] * len(instance.jobs)
        for of_set in self._sets:
            if of_set.fault:
                violations.append(of_set.fault)
                continue
            gang = max((instance.jobs[place].gang for place in of_set.rates), default=0)
            for name, kind, share in of_set.shares:
                for place in of_set.rates:
                    of_job[place] += share
                if kind is None:
                    violations.append(f"{of_set.whose}: GPU type {name!r} is not in the instance")
                    continue
                held[kind] += gang * share
                if share and not all(rates[kind] for rates in of_set.rates.values()):
                    verb, who = ("has", "it") if len(of_set.ids) == 1 else ("have", "they")
                    violations.append(
                        f"{of_set.whose} {verb} a share of {name!r}, where {who} cannot run"
                    )
        for job, total in zip(instance.jobs, of_job, strict=True):
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
