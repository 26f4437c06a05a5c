"""Types of GPUs with their speeds and prices: those that come with the toolkit, and a user's own.

A speed is one for all models, although models differ: on GPUs that were measured the ratio of P100
to V100 ranges from 0.2 to 2.3. It is a stand-in for tables that nobody has, and every result says
so. The figures and their sources are data: ``gpu_types.toml`` beside this file.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from lyra_opt.core.documents import Record, join_path, parse_toml, read_text
from lyra_opt.core.errors import FieldError, InputError, MissingFieldError
from lyra_opt.core.nearest import meant
from lyra_opt.simulation.cluster import GpuType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.workload import Workload

DATA = "gpu_types.toml"
KEYS = ("relative_speed", "price_per_hour", "source")


def gpu_types(
    own: Mapping[str, object] | None = None, *, field: str = "gpu_types"
) -> Mapping[str, GpuType]:
    """Return all types by name: those of the toolkit, and one's own.

    Parameters
    ----------
    own
        A table for each type, with `relative_speed` (a number above 0, or a ratio such as
        ``"1555/900"``: work done while a V100 does 1), `price_per_hour` and `source`. One named as
        the toolkit's own replaces what it gives of it; another needs its speed.
    field
        Path of `own` in its document, for errors.

    Raises
    ------
    FieldError
        If a value breaks its rule.
    """
    found = dict(_bundled())
    for name, fields in (own or {}).items():
        found[name] = _parsed(name, fields, join_path(field, name), found.get(name))
    return MappingProxyType(found)


LARGEST_FILE_BYTES = 2**20


def read_gpu_types(path: str | Path) -> Mapping[str, GpuType]:
    """Return all types by name: those of the toolkit, and those of a TOML file, a table each.

    Raises
    ------
    InputError
        If the file cannot be read, or a value of it breaks its rule.
    """
    source = str(path)
    try:
        return gpu_types(
            parse_toml(read_text(path, LARGEST_FILE_BYTES), source, "types of GPUs"), field=""
        )
    except FieldError as error:
        raise InputError(source, str(error)) from None


def types_of(names: Iterable[str], known: Mapping[str, GpuType] | None = None) -> list[GpuType]:
    """Return types by their names.

    Parameters
    ----------
    names
        In any order, which is kept.
    known
        As `gpu_types` returns them; None for those of the toolkit.

    Raises
    ------
    FieldError
        If there is no such type.
    """
    known = _bundled() if known is None else known
    found = []
    for name in names:
        if name not in known:
            raise FieldError("gpu_types", name, f"no such type; {meant(name, known)}")
        found.append(known[name])
    return found


def speeds_in_words(workload: Workload, cluster: Cluster) -> tuple[str, ...]:
    """Return how fast jobs without rates are on own GPUs, where these differ from the reference.

    A sentence for results, or none.
    """
    lent = {pool.gpu_type.name for pool in cluster.pools if pool.is_lent}
    unlike = [
        gpu_type
        for gpu_type in cluster.gpu_types
        if gpu_type.relative_speed != 1 and gpu_type.name not in lent
    ]
    if not unlike or all(job.measured is not None for job in workload.jobs):
        return ()
    listed = "; ".join(
        f"{gpu_type.name} {gpu_type.relative_speed:.2f}"
        + (f" ({gpu_type.source})" if gpu_type.source else "")
        for gpu_type in unlike
    )
    return (f"Assumed: jobs without rates are as fast as on a reference GPU times: {listed}.",)


@cache
def _bundled() -> Mapping[str, GpuType]:
    text = (files("lyra_opt.instances.heterogeneous") / DATA).read_text(encoding="utf-8")
    tables = parse_toml(text, DATA, "types of GPUs")
    return MappingProxyType(
        {name: _parsed(name, fields, name, None) for name, fields in tables.items()}
    )


def _parsed(name: str, fields: object, path: str, known: GpuType | None) -> GpuType:
    record = Record(fields, path, KEYS)
    given: dict[str, Any] = record.chosen(*KEYS)
    if known is None and "relative_speed" not in given:
        raise MissingFieldError(join_path(path, "relative_speed"))
    if "relative_speed" in given:
        given["relative_speed"] = _ratio(given["relative_speed"])
        given.setdefault("source", "")
    try:
        return GpuType(name=name, **given) if known is None else replace(known, **given)
    except FieldError as error:
        raise error.inside(path) from None


def _ratio(value: object) -> object:
    """Return a ratio in a text as a number; anything else as it is, for the type to judge."""
    if isinstance(value, str):
        try:
            return float(Fraction(value))
        except (ValueError, ZeroDivisionError, OverflowError):
            return value
    return value
