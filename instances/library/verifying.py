"""Is what the library says of an instance right? Recomputed from the files alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lyra_opt.core.documents import read_json_object
from lyra_opt.core.errors import UserError
from lyra_opt.core.result import same_value
from lyra_opt.core.texts import show_value_of
from lyra_opt.core.verifying import verify
from lyra_opt.instances.library.records import Proof
from lyra_opt.proofs.reading import checked_proof

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lyra_opt.core.loading import LoadedInstance
    from lyra_opt.instances.library.records import BestKnown
    from lyra_opt.instances.library.shelf import Library


@dataclass(frozen=True, slots=True)
class Verified:
    """What was found of an instance: what holds, and what does not."""

    id: str
    holds: tuple[str, ...]
    faults: tuple[str, ...]

    def in_words(self) -> str:
        """Return it as a line."""
        if self.faults:
            return f"{self.id}: NOT right: {'; '.join(self.faults)}"
        return f"{self.id}: {'; '.join(self.holds)}"


def verified(library: Library, name: str) -> Verified:
    """Check content, best solution and certificate of an instance.

    Raises
    ------
    UserError
        If there is no instance of the name; all else that is wrong is a fault.
    """
    library.entry(name)
    holds: list[str] = []
    faults: list[str] = []
    try:
        loaded = library.load(name)
        holds.append("its content is that of the catalogue")
        best = library.known.get(name)
        if best is None:
            faults.append("no record has it")
        else:
            for is_right, said in _checks(library, loaded, best):
                (holds if is_right else faults).append(said)
    except UserError as error:
        faults.append(str(error))
    return Verified(name, tuple(holds), tuple(faults))


def _checks(
    library: Library, loaded: LoadedInstance, best: BestKnown
) -> Iterator[tuple[bool, str]]:
    """Yield whether a thing that is said of the instance is right, and what."""
    solution, claims = library.solution(best.id)
    verification = verify(loaded.problem, loaded.instance, solution, claims)
    yield from ((False, violation) for violation in verification.violations)
    value, shown = verification.objective, show_value_of(best.best_known)
    if value is None or not same_value(value, best.best_known):
        yield False, f"its best known is {shown}, and its solution is worth {value}"
    else:
        yield True, f"its solution is worth {shown}"
    bound, variant = best.best_bound, loaded.instance.variant
    if bound is not None and variant.is_better(best.best_known, bound):
        is_close = same_value(best.best_known, bound, tolerance=variant.proof_gap)
        if not is_close:
            yield False, f"its best known, {shown}, is beyond its bound {show_value_of(bound)}"
    if best.proof is Proof.CERTIFICATE:
        yield _certificate(library, loaded, best)
    elif best.proof is Proof.NONE:
        yield True, "open" if bound is None else f"open, bound {show_value_of(bound)}"
    else:
        yield True, f"optimal by {best.proof}: {', '.join(best.proved_with)}"


def _certificate(library: Library, loaded: LoadedInstance, best: BestKnown) -> tuple[bool, str]:
    file = library.proof_file(best.id)
    if file is None:
        return False, "its certificate has no file"
    document = loaded.problem.instance_document(loaded.instance)
    proof = checked_proof(loaded, document, read_json_object(file), str(file))
    if not proof.holds:
        return False, f"its certificate does not hold: {proof.refutation}"
    if proof.value is None or not proof.is_optimal:
        return False, "its certificate does not prove an optimum"
    if not same_value(float(proof.value), float(best.best_known)):
        return False, f"its certificate proves {float(proof.value):.12g}"
    return True, "its certificate proves that nothing is better"
