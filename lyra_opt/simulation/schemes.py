"""Build the built-in schemes from the tables in ``schemes.toml``."""

import tomllib
from collections.abc import Iterator
from importlib.resources import files

from lyra_opt.heterogeneous.heuristics.policy_solver import ROUND_POLICIES
from lyra_opt.heterogeneous.heuristics.policy_solver import SUMMARIES as ROUND_SUMMARIES
from lyra_opt.network.heuristics.policy_solver import PLACEMENT_POLICIES
from lyra_opt.network.heuristics.policy_solver import SUMMARIES as PLACEMENT_SUMMARIES
from lyra_opt.simulation.class_timers import manual
from lyra_opt.simulation.scheme import (
    ComposedScheme,
    PlacementScheme,
    PolluxScheme,
    RoundScheme,
    Scheme,
)

TABLES = "schemes.toml"


def built_in_schemes() -> Iterator[Scheme]:
    """Yield the built-in schemes in the order of ``schemes.toml``."""
    tables = tomllib.loads((files("lyra_opt.simulation") / TABLES).read_text(encoding="utf-8"))
    for name, parts in tables["composed"].items():
        yield ComposedScheme(name=name, **parts)
    for name, fields in tables["rounds"].items():
        make = ROUND_POLICIES[name]
        yield RoundScheme(name=name, summary=ROUND_SUMMARIES[name], make=make, **fields)
    for name, fields in tables["placement"].items():
        # The scheme `manual` also accepts timers by gang size from a file.
        place = manual if name == "manual" else PLACEMENT_POLICIES[name]
        yield PlacementScheme(name=name, summary=PLACEMENT_SUMMARIES[name], make=place, **fields)
    for name, fields in tables["epochs"].items():
        yield PolluxScheme(name=name, **fields)
