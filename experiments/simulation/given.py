"""Objects of a user's own, in place of what a scenario names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from lyra_opt.core.errors import FieldError
from lyra_opt.experiments.sent_once import SentOnce

if TYPE_CHECKING:
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.scheme import Scheme
    from lyra_opt.simulation.workload import Workload

NAMED_JOBS = ("trace", "workload", "parameters", "vc")
"""Keys of ``jobs`` that say which jobs there are."""
OF_TRACES = ("days", "count", "sample")
"""Keys of ``jobs`` that choose among those of a trace."""
LENT = ("servers", "gpus_per_server", "gpu_type")
"""Keys of ``cluster.loans`` that say which servers there are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemeEntry:
    """A scheme as a scenario names it.

    Parameters
    ----------
    name
        Of the scheme.
    label
        What it is called in results.
    tenure
        Name of its tenure; None for its own.
    parameters
        What is other than the scheme has it.
    own
        An object in place of the one of the name.
    """

    name: str
    label: str
    tenure: str | None = None
    parameters: tuple[tuple[str, Any], ...] = field(default=(), hash=False)
    own: Scheme | None = field(default=None, hash=False)


@dataclass(frozen=True, kw_only=True)
class Given(SentOnce):
    """What is given, none of it by default.

    Parameters
    ----------
    workload
        In place of the scenario's jobs.
    is_trace
        Whether the workload says no more than traces do, so that all holds of it that the scenario
        says of a trace. Else it says all there is to say, and takes the place of that too.
    cluster
        In place of the scenario's, with its loans.
    schemes
        By label; they are run only where they are asked for.
    """

    workload: Workload | None = None
    is_trace: bool = False
    cluster: Cluster | None = None
    schemes: Mapping[str, SchemeEntry] = field(default_factory=dict)

    @property
    def words(self) -> list[str]:
        """What of the scenario is other than in its file."""
        found = [] if self.workload is None else [f"the jobs of {self.workload.name}"]
        return found + ([] if self.cluster is None else [f"the cluster {self.cluster.name}"])

    @cached_property
    def meaning(self) -> str:
        """Which jobs and cluster they are, of which results depend; schemes go by their labels.

        SHA-256 of every field of them, in time linear in the jobs.
        """
        if not self.words:
            return ""
        content = repr(_content((self.workload, self.is_trace, self.cluster)))
        return sha256(content.encode()).hexdigest()

    def put_into(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return a scenario's document without what the objects take the place of."""
        changed = dict(document)
        if self.workload is not None:
            kept = document.get("jobs", {}) if self.is_trace else {}
            changed["jobs"] = {name: kept[name] for name in kept if name not in NAMED_JOBS}
        if self.cluster is not None:
            changed["cluster"] = {"servers": len(self.cluster.own_servers)}
            if self.cluster.inference_servers:
                changed["cluster"]["loans"] = {"servers": self.cluster.inference_servers}
        return changed

    def require_alone(self, document: Mapping[str, Any]) -> None:
        """Check that a document that they were put into still says nothing in their place.

        Raises
        ------
        FieldError
            If it was changed, or an axis changes it.
        """
        found: dict[str, Any] = {}
        if self.workload is not None:
            names = NAMED_JOBS if self.is_trace else NAMED_JOBS + OF_TRACES
            jobs = document.get("jobs", {})
            found |= {f"jobs.{name}": jobs[name] for name in names if name in jobs}
        if self.cluster is not None:
            expected, table = self.put_into(document)["cluster"], document["cluster"]
            found |= {
                f"cluster.{name}": value
                for name, value in table.items()
                if name not in ("name", "loans") and value != expected.get(name)
            }
            if "loans" in expected:
                loans = table.get("loans", {})
                found |= {
                    f"cluster.loans.{name}": loans[name]
                    for name in LENT
                    if name in loans and loans[name] != expected["loans"].get(name)
                }
        for path, value in found.items():
            rule = "must not be set: an object is given that says it"
            raise FieldError(path, value, rule)


def _content(value: Any) -> Any:
    """Return all that an object holds, by the names of its fields, for `repr`."""
    if is_dataclass(value):
        held = [(each.name, _content(getattr(value, each.name))) for each in fields(value)]
        return type(value).__name__, held
    if isinstance(value, Mapping):
        return [(_content(name), _content(inner)) for name, inner in value.items()]
    if isinstance(value, list | tuple):
        return [_content(inner) for inner in value]
    if "__dict__" in dir(value) and not callable(getattr(value, "tolist", None)):
        return type(value).__name__, _content(vars(value))
    return value.tolist() if hasattr(value, "tolist") else value
