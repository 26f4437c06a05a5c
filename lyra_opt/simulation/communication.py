"""How long an iteration takes where a gang is placed: compute, and communication beside it.

Efficiency is the share of an iteration in which a gang computes: 1 for a single GPU, less the more
of its communication is not hidden behind computing. It is what Dally's simulator calls a
placement's slowdown (its S), and takes from ASTRA-sim; here it comes from a closed form or from a
table of the user's.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lyra_opt.core.csv_text import csv_rows
from lyra_opt.core.documents import read_text
from lyra_opt.core.errors import FieldError, InputError, UserError
from lyra_opt.core.rules import require_integer, require_number, require_text
from lyra_opt.network.links import LINK_SETS, TIER_OF_LABEL, LinkSet, Tier

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from lyra_opt.simulation.topology import Topology

BYTES_PER_GB = 1e9
LEAST_EFFICIENCY = 1e-9
"""Of a table; with less, a job may hardly come to an end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedModel:
    """What is trained, as far as communication goes.

    Parameters
    ----------
    name
        Unique among the models.
    layers
        Each of which is reduced on its own and pays the latency, at least 1.
    compute_s
        Of an iteration, above 0.
    all_reduce_bytes
        Of an iteration, at least 0.
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


MODELS: Mapping[str, TrainedModel] = {
    name: TrainedModel(
        name=name, layers=layers, compute_s=compute_s, all_reduce_bytes=all_reduce_bytes
    )
    for name, layers, compute_s, all_reduce_bytes in (
        ("resnet50", 54, 11.82e-3, 102.0e6),  # batch 512
        ("resnet18", 21, 0.180e-3, 46.7e6),  # batch 512
        ("vgg11", 11, 3.84e-3, 531.4e6),  # batch 256
        ("alexnet", 8, 1.21e-3, 244.4e6),  # batch 512
        ("mobilenetv3", 52, 0.063e-3, 9.87e6),  # small; batch 512
        (
            "bert",
            66,
            1.71e-3,
            562e6,
        ),  # large; batch 256; its header says 145 layers, its rows are 66
    )
}
"""Sums over the per-layer profiles of Dally's public simulator, its compute scale applied.

Take them for orders of magnitude: the absolute times look odd, and which profile was live when
the paper's figures were made is not known.
"""


SCATTERED_MODELS = frozenset({"resnet50", "resnet18", "bert"})
"""Models that Tiresias, as Dally's public simulator has it, does not keep together: skew is low."""


class CommunicationModel(ABC):
    """Says how well a gang computes where it is placed."""

    @abstractmethod
    def models(self) -> Collection[str]:
        """Return the names of the models that it knows."""

    @abstractmethod
    def efficiency(self, model: str, gang: int, tier: Tier, units: int) -> float:
        """Return the share of an iteration in which a gang computes, above 0 and at most 1.

        Parameters
        ----------
        model
            What it trains, one of `models`.
        gang
            Its GPUs, at least 1; one GPU has nobody to talk to.
        tier
            What it spans.
        units
            How many units of the tier it spans: GPUs, machines or racks; at least 2 for gangs of
            several.

        Raises
        ------
        UserError
            If nothing is known of the model, or of such a gang.
        """

    def unknown(self, model: str, job: str) -> UserError:
        """Return the error that nothing is known of the model that a job trains."""
        return UserError(
            f"job {job} trains {model!r}: must be one of: {', '.join(self.models())}; a file of "
            "measured slowdowns brings models of its own"
        )

    def tier_efficiency(self, model: str, gang: int, topology: Topology) -> tuple[float, ...]:
        """Return the efficiency at each tier with the fewest units possible; 0 where it cannot be.

        That is, where the empty cluster has no room for the gang across that tier.
        """
        return tuple(
            self.efficiency(model, gang, tier, topology.fewest_units(tier, gang))
            if topology.can_span(tier, gang)
            else 0.0
            for tier in Tier
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedForm(CommunicationModel):
    """Ring all-reduce over the slowest tier that a gang spans.

    With k units, bandwidth B, latency l, n layers and M bytes, communication takes
    ``2 (k - 1) / k  M / B + 2 (k - 1) l n``, of which so much is exposed as is beyond the share
    of computing that it overlaps with. Ours, in place of ASTRA-sim: the cost of a ring, once for
    all bytes and once for each layer's hops.

    Parameters
    ----------
    links
        Bandwidth and latency of each tier.
    overlap
        Share of computing behind which communication can hide, 0 to 1.
    known
        Models by name.
    """

    links: LinkSet = LINK_SETS["shipped"]
    overlap: float = 0.0
    known: Mapping[str, TrainedModel] = field(default_factory=lambda: MODELS)

    def __post_init__(self) -> None:
        if require_number("overlap", self.overlap, minimum=0) > 1:
            raise FieldError("overlap", self.overlap, "must be at most 1")

    def models(self) -> Collection[str]:
        """Return the names of the models that it knows."""
        return self.known.keys()

    def communication_s(self, model: TrainedModel, tier: Tier, units: int) -> float:
        """Return how long the communication of an iteration takes, hidden or not."""
        link = self.links.at(tier)
        bandwidth = link.bandwidth_gb_per_s * BYTES_PER_GB
        hops = 2 * (units - 1)
        return hops / units * model.all_reduce_bytes / bandwidth + hops * link.latency_s * (
            model.layers
        )

    def exposed_s(self, model: TrainedModel, tier: Tier, units: int) -> float:
        """Return the communication of an iteration that computing does not hide."""
        hidden_s = self.overlap * model.compute_s
        return max(0.0, self.communication_s(model, tier, units) - hidden_s)

    def iteration_s(self, model: TrainedModel, tier: Tier, units: int) -> float:
        """Return how long an iteration takes."""
        return model.compute_s + self.exposed_s(model, tier, units)

    def efficiency(self, model: str, gang: int, tier: Tier, units: int) -> float:
        """Return computing over computing and exposed communication; see the base class."""
        found = self.known.get(model)
        if found is None:
            raise UserError(f"model {model!r}: must be one of: {', '.join(self.known)}")
        if gang == 1:
            return 1.0
        return found.compute_s / self.iteration_s(found, tier, units)


class SlowdownTable(CommunicationModel):
    """Measured slowdowns: an iteration's time over that on a single GPU, at least 1.

    However many units of a tier a gang spans.

    Parameters
    ----------
    slowdowns
        By model, GPUs of the gang, and tier.
    source
        The file that they are from, for errors.
    """

    def __init__(
        self, slowdowns: Mapping[tuple[str, int, Tier], float], *, source: str = "slowdowns"
    ) -> None:
        self._slowdowns = dict(slowdowns)
        self._source = source
        self._models = dict.fromkeys(model for model, _, _ in self._slowdowns)

    def models(self) -> Collection[str]:
        """Return the names of the models that it knows."""
        return self._models.keys()

    def unknown(self, model: str, job: str) -> UserError:
        """Return the error that there is no line for the model that a job trains."""
        has = ", ".join(self._models)
        return InputError(
            self._source, f"has no lines for model {model!r}, which job {job} trains; has: {has}"
        )

    def efficiency(self, model: str, gang: int, tier: Tier, units: int) -> float:  # noqa: ARG002
        """Return one over the slowdown of the line for model, gang and tier."""
        if gang == 1:
            return 1.0
        slowdown = self._slowdowns.get((model, gang, tier))
        if slowdown is None:
            raise InputError(
                self._source,
                f"the slowdowns have no line for model {model!r} on {gang} GPUs, tier {tier.label}",
            )
        return 1.0 / slowdown


LARGEST_TABLE_BYTES = 4 * 2**20
TABLE_COLUMNS = ("model", "gpus", "tier", "slowdown")


def read_slowdowns(path: str | Path) -> SlowdownTable:
    """Read slowdowns from a CSV file with the columns model, gpus, tier and slowdown.

    Raises
    ------
    InputError
        If the file cannot be read or a line breaks a rule; names file, line, field and rule.
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
                raise FieldError("model", key[0], "must not have two lines for gpus and tier")
        except FieldError as error:
            raise InputError(source, f"line {line}: {error}") from None
        found[key] = slowdown
    if not found:
        raise InputError(source, "must have at least one line of slowdowns")
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
        raise FieldError("tier", tier, f"must be one of: {', '.join(TIER_OF_LABEL)}")
    try:
        number = float(slowdown)
    except ValueError:
        number = math.nan
    if not 1 <= number <= 1 / LEAST_EFFICIENCY:
        rule = f"must be a number from 1 to {1 / LEAST_EFFICIENCY:g}"
        raise FieldError("slowdown", slowdown, rule)
    return (model, int(gpus), TIER_OF_LABEL[tier]), number
