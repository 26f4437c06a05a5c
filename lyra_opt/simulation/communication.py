"""Models of the communication time in a training iteration, depending on the placement.

Efficiency is the share of an iteration in which a gang computes: 1 for a single GPU, less if
communication is not hidden behind computing. Dally's simulator calls it a placement's slowdown (its
S) and takes it from ASTRA-sim. In this module it comes from a closed form or from the user's table.
"""

import math
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.nearest_names import one_of
from lyra_opt.core.rules import require_integer, require_number, require_text
from lyra_opt.network.links import LINK_SETS, TIER_OF_LABEL, LinkSet, Tier
from lyra_opt.simulation.topology import Topology

BYTES_PER_GB = 1e9
LEAST_EFFICIENCY = 1e-9
"""Least efficiency in a table; with less, a job may take practically for ever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """A model to train, with the figures that determine its communication time.

    Parameters
    ----------
    name
        Unique among the models.
    layers
        Number of layers, at least 1. Each layer is reduced separately and pays the latency.
    compute_s
        Computing time of an iteration, above 0.
    all_reduce_bytes
        Bytes that an iteration reduces over all GPUs, at least 0.
    """

    name: str
    layers: int
    compute_s: float
    all_reduce_bytes: float

    def __post_init__(self) -> None:
        require_text("name", self.name)
        require_integer("layers", self.layers, minimum=1)
        for name, above in (("compute_s", True), ("all_reduce_bytes", False)):
            number = require_number(name, getattr(self, name), minimum=0, above=above)
            object.__setattr__(self, name, number)


_MODELS = files("lyra_opt.simulation").joinpath("models.toml")
MODELS: Mapping[str, TrainedModel] = {
    name: TrainedModel(name=name, **row)
    for name, row in tomllib.loads(_MODELS.read_text("utf-8")).items()
}
"""Sums over the per-layer profiles of Dally's public simulator, with its compute scale applied.

Use them only as orders of magnitude: the absolute times look odd, and it is not known which profile
the paper's figures used.
"""


SCATTERED_MODELS = frozenset({"resnet50", "resnet18", "bert"})
"""Models with low skew, which Tiresias does not keep together, as in Dally's public simulator."""


class CommunicationModel(ABC):
    """Computes the share of time in which a gang computes rather than waits for the network."""

    @abstractmethod
    def models(self) -> Collection[str]:
        """Return the names of the models that are covered."""

    @abstractmethod
    def efficiency(self, model: str, gang: int, tier: Tier, units: int) -> float:
        """Return the share of an iteration in which a gang computes, above 0 and at most 1.

        Parameters
        ----------
        model
            Name of the trained model, one of `models`.
        gang
            Number of GPUs, at least 1; a single GPU does not communicate.
        tier
            Tier that the gang spans.
        units
            Number of units of the tier that it spans: GPUs, machines or racks; at least 2 for a
            gang of several GPUs.

        Raises
        ------
        UserError
            If the model or the size of the gang is not covered.
        """

    def unknown(self, model: str, job: str) -> UserError:
        """Return the error for a job whose trained model has no known communication time."""
        return UserError(
            f"job {job}: model is {model!r}: {one_of(model, self.models())}; to use other models, "
            "give a file of measured slowdowns"
        )

    def tier_efficiency(self, model: str, gang: int, topology: Topology) -> tuple[float, ...]:
        """Return a gang's efficiency at each tier, on the fewest machines or racks that hold it.

        It is 0 at a tier across which the empty cluster has no room for the gang.
        """
        return tuple(
            self.efficiency(model, gang, tier, topology.fewest_units(tier, gang))
            if topology.can_span(tier, gang)
            else 0.0
            for tier in Tier
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm(CommunicationModel):
    """A communication model with the time of a ring all-reduce over a gang's slowest tier.

    With k units, bandwidth B, latency l, n layers and M bytes, communication takes ``2 (k - 1) / k
    M / B + 2 (k - 1) l n`` seconds. The part beyond the overlap with computing is exposed. This
    form is ours, in place of ASTRA-sim: a ring transfers all bytes once and pays the latency of its
    hops for each layer.

    Parameters
    ----------
    links
        Bandwidth and latency of each tier.
    overlap
        Share of the computing time behind which communication can hide, 0 to 1.
    known
        The models by name.
    """

    links: LinkSet = LINK_SETS["shipped"]
    overlap: float = 0.0
    known: Mapping[str, TrainedModel] = field(default_factory=lambda: MODELS)

    def __post_init__(self) -> None:
        require_number("overlap", self.overlap, minimum=0, maximum=1)

    def models(self) -> Collection[str]:
        """Return the names of the models in `known`."""
        return self.known.keys()

    def communication_s(self, model: TrainedModel, tier: Tier, units: int) -> float:
        """Return the communication time of an iteration in seconds, hidden or not."""
        link = self.links.at(tier)
        bandwidth = link.bandwidth_gb_per_s * BYTES_PER_GB
        hops = 2 * (units - 1)
        return hops / units * model.all_reduce_bytes / bandwidth + hops * link.latency_s * (
            model.layers
        )

    def exposed_s(self, model: TrainedModel, tier: Tier, units: int) -> float:
        """Return the seconds of an iteration's communication that computing does not hide."""
        hidden_s = self.overlap * model.compute_s
        return max(0.0, self.communication_s(model, tier, units) - hidden_s)

    def iteration_s(self, model: TrainedModel, tier: Tier, units: int) -> float:
        """Return the time of an iteration in seconds: computing and exposed communication."""
        return model.compute_s + self.exposed_s(model, tier, units)

    def efficiency(self, model: str, gang: int, tier: Tier, units: int) -> float:
        """Return the computing time of an iteration divided by its whole time."""
        found = self.known.get(model)
        if found is None:
            raise UserError(f"model {model!r}: {one_of(model, self.known)}")
        if gang == 1:
            return 1.0
        return found.compute_s / self.iteration_s(found, tier, units)


class SlowdownTable(CommunicationModel):
    """Measured slowdowns: the time of an iteration relative to a single GPU, at least 1.

    The slowdown does not depend on how many units of a tier a gang spans.

    Parameters
    ----------
    slowdowns
        Slowdown by model, number of GPUs and tier.
    source
        Name of the file, for error messages.
    """

    def __init__(
        self, slowdowns: Mapping[tuple[str, int, Tier], float], *, source: str = "slowdowns"
    ) -> None:
        self._slowdowns = dict(slowdowns)
        self._source = source
        self._models = dict.fromkeys(model for model, _, _ in self._slowdowns)

    def models(self) -> Collection[str]:
        """Return the names of the models in the table."""
        return self._models.keys()

    def unknown(self, model: str, job: str) -> UserError:
        """Return the error for a job whose model has no line in the table."""
        rule = one_of(model, self._models, "its models")
        return InputError(self._source, f"has no lines for model {model!r} of job {job}: {rule}")

    def efficiency(self, model: str, gang: int, tier: Tier, units: int) -> float:  # noqa: ARG002
        """Return the inverse of the slowdown for the model, the number of GPUs and the tier."""
        if gang == 1:
            return 1.0
        slowdown = self._slowdowns.get((model, gang, tier))
        if slowdown is None:
            raise InputError(
                self._source,
                f"has no line for model {model!r} on {gang} GPUs at tier {tier.label}; add one",
            )
        return 1.0 / slowdown


LARGEST_TABLE_BYTES = 4 * 2**20
TABLE_COLUMNS = ("model", "gpus", "tier", "slowdown")


def read_slowdowns(path: str | Path) -> SlowdownTable:
    """Read a slowdown table from a CSV file with the columns model, gpus, tier and slowdown.

    Raises
    ------
    InputError
        If the file cannot be read or a line breaks a rule; the message names the file, the line,
        the field and the rule.
    """
    source = str(path)
    rows = csv_rows(source, read_text(path, LARGEST_TABLE_BYTES))
    found: dict[tuple[str, int, Tier], float] = {}
    if tuple(name.strip() for name in next(rows, [])) != TABLE_COLUMNS:
        rule = f"the first line must be {','.join(TABLE_COLUMNS)}"
        raise InputError(source, f"line 1: {rule}")
    for line, row in enumerate(rows, 2):
        if not row:
            continue
        try:
            key, slowdown = _table_line(row)
            if key in found:
                raise FieldError("model", key[0], "must have only one line for each gpus and tier")
        except FieldError as error:
            raise InputError(source, f"line {line}: {error}") from None
        found[key] = slowdown
    if not found:
        raise InputError(source, "must contain at least one line of slowdowns after the header")
    return SlowdownTable(found, source=source)


def _table_line(row: list[str]) -> tuple[tuple[str, int, Tier], float]:
    if len(row) != len(TABLE_COLUMNS):
        raise FieldError("line", ",".join(row), f"must have {len(TABLE_COLUMNS)} columns")
    model, gpus, tier, slowdown = (cell.strip() for cell in row)
    require_text("model", model)
    if not (gpus.isascii() and gpus.isdigit() and len(gpus) <= 9):
        raise FieldError("gpus", gpus, "must be an integer of at least 1")
    require_integer("gpus", int(gpus), minimum=1)
    if tier not in TIER_OF_LABEL:
        raise FieldError("tier", tier, one_of(tier, TIER_OF_LABEL))
    try:
        number = float(slowdown)
    except ValueError:
        number = math.nan
    if not 1 <= number <= 1 / LEAST_EFFICIENCY:
        rule = f"must be a number from 1 to {1 / LEAST_EFFICIENCY:g}"
        raise FieldError("slowdown", slowdown, rule)
    return (model, int(gpus), TIER_OF_LABEL[tier]), number
