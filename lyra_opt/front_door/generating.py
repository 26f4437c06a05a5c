"""The function ``lo.generate``, which generates instances of a family (a seeded generator)."""

from collections import Counter
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any, Literal, overload

from lyra_opt.allocation import Instance as AllocationInstance
from lyra_opt.core.errors import FieldError, UserError, without_inner_frames
from lyra_opt.heterogeneous import Instance as HeterogeneousInstance
from lyra_opt.instances.family import FamilyLike
from lyra_opt.instances.parameters import named_as_in_python
from lyra_opt.network import Instance as NetworkInstance
from lyra_opt.preemption import Instance as PreemptionInstance
from lyra_opt.reclaim import Instance as ReclaimInstance

Value = str | int | Path | None
Values = Value | Iterable[Value]
Seeds = Iterable[int] | None


# Type checkers treat a string as a list of strings, so a call could match two overloads.
@overload
def generate(  # type: ignore[overload-overlap]
    problem: Literal["reclaim"], family: FamilyLike, *, seed: int = 0, **parameters: Value
) -> ReclaimInstance: ...
@overload
def generate(
    problem: Literal["reclaim"], family: FamilyLike, *, seeds: Seeds = None, **parameters: Values
) -> list[ReclaimInstance]: ...
@overload
def generate(  # type: ignore[overload-overlap]
    problem: Literal["allocation"], family: FamilyLike, *, seed: int = 0, **parameters: Value
) -> AllocationInstance: ...
@overload
def generate(
    problem: Literal["allocation"], family: FamilyLike, *, seeds: Seeds = None, **parameters: Values
) -> list[AllocationInstance]: ...
@overload
def generate(  # type: ignore[overload-overlap]
    problem: Literal["heterogeneous"], family: FamilyLike, *, seed: int = 0, **parameters: Value
) -> HeterogeneousInstance: ...
@overload
def generate(
    problem: Literal["heterogeneous"],
    family: FamilyLike,
    *,
    seeds: Seeds = None,
    **parameters: Values,
) -> list[HeterogeneousInstance]: ...
@overload
def generate(  # type: ignore[overload-overlap]
    problem: Literal["network"], family: FamilyLike, *, seed: int = 0, **parameters: Value
) -> NetworkInstance: ...
@overload
def generate(
    problem: Literal["network"], family: FamilyLike, *, seeds: Seeds = None, **parameters: Values
) -> list[NetworkInstance]: ...
@overload
def generate(  # type: ignore[overload-overlap]
    problem: Literal["preemption"], family: FamilyLike, *, seed: int = 0, **parameters: Value
) -> PreemptionInstance: ...
@overload
def generate(
    problem: Literal["preemption"], family: FamilyLike, *, seeds: Seeds = None, **parameters: Values
) -> list[PreemptionInstance]: ...
@overload
def generate(problem: str, family: FamilyLike, **parameters: Any) -> Any: ...
@without_inner_frames
def generate(
    problem: str, family: FamilyLike, *, seed: Any = None, seeds: Any = None, **parameters: Any
) -> Any:
    """Return an instance of a family, or a list of instances if any argument is a list.

    A list, tuple, range or array lists several values of a parameter: each combination of values
    with each seed is an instance. No parameter is a list by itself; a parameter with several names
    has them in one string, ``gpu_types="v100,k80"``.

    Parameters
    ----------
    problem, family
        Names such as ``reclaim`` and ``messy-dist``; ``lyra-opt generate PROBLEM --help`` lists the
        families and their parameters. Your own family is ``my_file.py:NAME``, a class or an object.
    seed
        A seed from 0 to 2**53 - 1, by default 0; some families ignore it.
    seeds
        Several seeds instead of one, such as ``range(5)``.
    **parameters
        The parameters of the family, each with one value or several; None means not given.

    Returns
    -------
    Instance or list of Instance
        The instances in the order of the given parameters: the seed varies fastest, then the last
        parameter, and the first parameter slowest. Names are unique.

    Raises
    ------
    UserError
        If the family is unknown, a parameter is missing or not valid, or two combinations give the
        same instance.

    Examples
    --------
    >>> generate("reclaim", "messy-dist", servers=20, reclaim=6).name
    'messy-dist-v1-s20-k6-seed0'
    >>> fleets = generate("reclaim", "messy-dist", servers=[20, 40], seeds=range(2))
    >>> [fleet.name.removeprefix("messy-dist-v1-") for fleet in fleets]
    ['s20-k6-seed0', 's20-k6-seed1', 's40-k12-seed0', 's40-k12-seed1']
    """
    from lyra_opt.instances import family as families

    if seed is not None and seeds is not None:
        raise UserError("seed cannot be combined with seeds")
    if seeds is not None and not _is_list(seeds):
        rule = "must be a list such as range(5); for a single seed write seed=5"
        raise FieldError("seeds", seeds, rule)
    is_one = seeds is None and not any(map(_is_list, parameters.values()))
    all_seeds = _values(seed or 0) if seeds is None else _values(seeds)
    points = [
        dict(zip(parameters, values, strict=True))
        for values in product(*map(_values, parameters.values()))
    ]
    with named_as_in_python():
        if is_one:
            return families.generate(problem, family, seed=all_seeds[0], **points[0])
        found = families.find_family(problem, family)
        for point in points:
            if len(all_seeds) > 1 and not found.is_seeded(point):
                raise UserError(
                    f"seeds has {len(all_seeds)} entries: must have 1 for family {found.name}, "
                    "which ignores the seed for these parameters"
                )
        instances = [
            families.generate(problem, family, seed=each, **point)
            for point in points
            for each in all_seeds
        ]
    for name, count in Counter(instance.name for instance in instances).items():
        if count > 1:
            raise UserError(f"{count} combinations of parameters give the same instance, {name}")
    return instances


def _is_list(value: object) -> bool:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return False
    return getattr(value, "ndim", 1) > 0  # a NumPy array with 0 dimensions is a single number


def _values(value: Any) -> list[Any]:
    """Return one value or several as a list; NumPy and pandas values become Python values."""
    if not _is_list(value):
        return [value.item() if hasattr(value, "item") else value]
    return [each.item() if hasattr(each, "item") else each for each in value]
