"""Check a solution and every claim about it against its instance."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lyra_opt.core.errors import one_line, show_value
from lyra_opt.core.gaps import finite, relative_gap
from lyra_opt.core.problem import Problem, ProblemInstance, Variant
from lyra_opt.core.representations import html_of
from lyra_opt.core.result import Number, Status, same_value
from lyra_opt.core.terms import ONE_NUMBER, Terms
from lyra_opt.core.texts import show_value_of, words


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of checking a solution: violations, and the recomputed objective and measures."""

    violations: tuple[str, ...]
    objective: Number | None
    measures: Mapping[str, Any]
    terms: Terms = field(default=ONE_NUMBER, repr=False, compare=False)

    def __bool__(self) -> bool:
        """Return whether the solution is valid and all claims are right."""
        return self.valid

    def __str__(self) -> str:
        """Return the outcome as text: valid or invalid, each violation, and the computed values."""
        computed = self._computed() if self.objective is not None else {}
        return "\n".join(
            (
                "valid" if self.valid else "invalid",
                *(f"  {one_line(violation)}" for violation in self.violations),
                *(f"{name}: {text}" for name, text in computed.items()),
            )
        )

    def _computed(self) -> dict[str, str]:
        """Return the computed values as texts, by name."""
        objective = None if self.objective is None else self.terms.in_words(self.objective)
        if objective is not None and self.terms.keys:
            objective += f" ({self.terms.legend})"
        measures = {key: each for key, each in self.measures.items() if key != self.terms.measure}
        shown = {"objective": objective, **measures}
        return {
            words(key): show_value_of(value) for key, value in shown.items() if value is not None
        }

    @property
    def valid(self) -> bool:
        """Whether the solution is valid and every claim about it is right."""
        return not self.violations

    def _repr_html_(self) -> str:
        """Return the outcome as HTML for a notebook."""
        wrong = {f"violation {place + 1}": text for place, text in enumerate(self.violations)}
        return html_of("valid" if self.valid else "not valid", wrong | self._computed())

    def as_json_object(self) -> dict[str, Any]:
        """Return the outcome as the JSON object that ``verify --format json`` prints."""
        return {
            "valid": self.valid,
            "violations": list(self.violations),
            "objective": self.objective,
            **self.measures,
        }


def verify(
    problem: Problem, instance: ProblemInstance, solution: Any, claims: Mapping[str, Any]
) -> Verification:
    """Check a solution and the claims about it; a missing solution (None) is a violation.

    Parameters
    ----------
    claims
        ``instance`` (its name) and any of ``objective``, the problem's measures and, from a
        solver's answer, ``status``, ``dual_bound`` and ``gap``. The dual bound is not proved again,
        only compared with the objective. ``hint`` is a text for the message on a false objective.
    """
    other = for_another_instance(instance, claims)
    violations = [] if other is None else [f"the solution {other}"]
    if solution is None:
        violations.append("there is no solution")
        return Verification(
            violations=tuple(violations),
            objective=None,
            measures=dict.fromkeys(problem.measure_keys),
        )
    report = problem.check(instance, solution)
    violations.extend(report.violations)
    violations.extend(_false_proofs(instance.variant, claims))
    if report.objective is not None:
        found = {"objective": report.objective, **report.measures()}
        violations.extend(
            f"{key} is claimed to be {_show(claims[key])}, but is {_show(found[key])}"
            + (claims.get("hint", "") if key == "objective" else "")
            for key in found
            if key in claims and not _agree(claims[key], found[key])
        )
    return Verification(
        violations=tuple(violations),
        objective=report.objective,
        measures=report.measures(),
        terms=problem.terms_of(instance),
    )


def for_another_instance(instance: ProblemInstance, claims: Mapping[str, Any]) -> str | None:
    """Return an error text if the claims name another instance; None otherwise."""
    claimed = claims.get("instance")
    if claimed == instance.name:
        return None
    return f"is for the instance {show_value(claimed)}, not for {show_value(instance.name)}"


def _false_proofs(variant: Variant, claims: Mapping[str, Any]) -> list[str]:
    """Return the contradictions between the claimed status, objective, dual bound and gap."""
    objective, bound = claims.get("objective"), claims.get("dual_bound")
    false = []
    if (
        objective is not None
        and bound is not None
        and not same_value(objective, bound)
        and variant.is_better(objective, bound)
    ):
        false.append(f"the dual bound {bound} contradicts the objective {objective}")
    if "status" in claims:
        proved = (
            objective is not None
            and bound is not None
            and same_value(objective, bound, tolerance=variant.proof_gap)
        )
        if (claims["status"] == Status.OPTIMAL) != proved:
            false.append(
                f"status is claimed to be {claims['status']}, which contradicts objective "
                f"{objective} and dual bound {bound}"
            )
    claimed_gap = claims.get("gap")
    gap = None
    if objective is not None and bound is not None:
        gap = finite(relative_gap(objective, bound, variant))
    if claimed_gap is not None and (gap is None or not same_value(claimed_gap, gap)):
        false.append(f"gap is claimed to be {claimed_gap}, but {_gap_in_words(gap, bound)}")
    return false


def _gap_in_words(gap: float | None, bound: Number | None) -> str:
    if gap is not None:
        return f"is {gap}"
    return f"is not defined {'without a dual bound' if bound is None else 'for a bound of 0'}"


def _show(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(str, value[:20]))}{', ...' if len(value) > 20 else ''}]"
    return show_value(value)


def _agree(claimed: Any, found: Any) -> bool:
    """Return whether a claimed value equals the computed one; lists may differ in order."""
    if isinstance(found, float) and isinstance(claimed, int | float):
        return same_value(claimed, found)
    if isinstance(claimed, list) and isinstance(found, list):
        return sorted(map(str, claimed)) == sorted(map(str, found))
    return bool(claimed == found)
