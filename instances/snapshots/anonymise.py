"""Replace the names in a snapshot by pseudonyms, so that its owner can show it to others.

The input is what a reader allows: the fields that a plan needs, and no others. In it, every text is
replaced unless a table here keeps it. Pseudonyms sort as the texts that they replace, so that ties
between plans are broken alike, and equal texts have equal pseudonyms, so that references hold.
Times are shifted by the same amount. Numbers and quantities stay.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lyra_opt.instances.snapshots.reader import SnapshotFile, SnapshotReader

KEPT_FIELDS = frozenset(
    {
        *("operator", "effect", "phase", "restartPolicy", "preemptionPolicy"),
        *("preemptibility", "mode", "disruptionMode", "allocationMode", "type", "status"),
        *("job_state", "state", "state_flags", "preempt_mode", "shared", "exclusive", "depth"),
    }
)
"""The fields whose texts are words of the API and stay."""

QUANTITY_FIELDS = frozenset({"allocatable", "requests", "limits", "overhead"})
"""The fields with amounts by resource, whose texts are numbers."""

TRES_FIELDS = re.compile("tres_.*|gres.*|[a-z]*Gres")
"""The fields with amounts of resources in the notation of Slurm."""

KEYED_FIELDS = frozenset({"labels", "annotations", "matchLabels", "nodeSelector"})
"""The fields whose keys are keys of labels or annotations."""

TIME_FIELDS = frozenset(
    {"creationTimestamp", "deletionTimestamp", "lastHeartbeatTime", "startTime"}
)

PUBLIC_DOMAINS = (
    *("kubernetes.io", "k8s.io", "nvidia.com", "amd.com", "intel.com", "habana.ai", "google.com"),
    *("volcano.sh", "run.ai", "kai.scheduler", "ray.io", "kubeflow.org", "karpenter.sh"),
)
"""The domains of label keys and resources that are the same in all clusters and stay."""

PUBLIC_KEYS = frozenset(
    {"metadata.name", "pod-group-name", "gpu-fraction", "gpu-memory", "job-name"}
)
"""Keys without a domain that stay."""

LEVEL_WORDS = frozenset(
    {"rack", "block", "zone", "region", "row", "room", "hall", "spine", "leaf", "switch", "clique"}
)
"""Ends of label keys that stay, so that ``--level`` takes them."""

PUBLIC_VALUES = (
    "nvidia.com/gpu.product",
    "amd.com/gpu.product-name",
    "cloud.google.com/gke-accelerator",
)
"""The keys of labels whose values, types of GPUs, stay."""

NEWEST = datetime(2000, 1, 1, tzinfo=UTC)
"""The newest time in the result."""

_NUMBER = re.compile(r"-?\d+(\.\d+)?|true|false|")


class Pseudonyms:
    """The pseudonyms of all texts in a document, and the shift of its times.

    Parameters
    ----------
    document
        JSON data: objects, lists, texts and numbers.
    public
        Texts that stay wherever they occur, such as kinds and API versions.
    """

    def __init__(self, document: Any, public: Collection[str] = ()) -> None:
        names: set[str] = set()
        times: list[datetime] = []
        for role, text in _texts(document):
            if role == "time":
                times.append(_time(text))
            elif role == "key":
                names |= set(_parts_to_hide(text))
            else:
                names.add(text)
        names -= set(public)
        width = len(str(len(names)))
        self.table: Mapping[str, str] = {
            name: f"x{place:0{width}}" for place, name in enumerate(sorted(names))
        }
        """The pseudonym of each text."""
        self._shift = NEWEST - max(times) if times else timedelta()

    def applied(self, value: Any, field: str = "", key: str = "") -> Any:
        """Return a value with all names replaced and all times shifted.

        `field` is the name of the field that contains the value, and `key` the key of its label.
        """
        if isinstance(value, dict):
            if field in QUANTITY_FIELDS:
                return {self._key(name): amount for name, amount in value.items()}
            if field in KEYED_FIELDS:
                return {
                    self._key(name): self._text(text, field, name) for name, text in value.items()
                }
            inner = str(value.get("key", ""))
            return {
                name: self._key(each)
                if name == "key" and isinstance(each, str)
                else self.applied(each, name, inner)
                for name, each in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.applied(each, field, key) for each in value]
        return self._text(value, field, key) if isinstance(value, str) else value

    def _text(self, text: str, field: str, key: str) -> str:
        role = _role(text, field, key)
        if role == "time":
            return f"{_time(text) + self._shift:%Y-%m-%dT%H:%M:%SZ}"
        return self.table.get(text, text) if role == "name" else text

    def _key(self, key: str) -> str:
        hidden = _parts_to_hide(key)
        domain, slash, end = key.rpartition("/")
        parts = (self.table.get(part, part) if part in hidden else part for part in (domain, end))
        return slash.join(parts)


def _texts(value: Any, field: str = "", key: str = "") -> Iterator[tuple[str, str]]:
    """Yield the texts of a document that do not stay, each with its role: time, key or name."""
    if isinstance(value, dict):
        inner = str(value.get("key", ""))
        for name, each in value.items():
            if field in QUANTITY_FIELDS | KEYED_FIELDS:
                yield "key", name
                if field in KEYED_FIELDS:
                    yield from _texts(each, field, name)
            elif name == "key" and isinstance(each, str):
                yield "key", each
            else:
                yield from _texts(each, name, inner)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, field, key)
    elif isinstance(value, str) and (role := _role(value, field, key)):
        yield role, value


def _role(text: str, field: str, key: str) -> str:
    """Return what a text is: a time, a name, or (empty) something that stays."""
    if field in TIME_FIELDS or (field == "annotations" and _is_time(text)):
        return "time"
    if field in KEPT_FIELDS or TRES_FIELDS.fullmatch(field) or key in PUBLIC_VALUES:
        return ""
    return "" if _NUMBER.fullmatch(text) else "name"


def _parts_to_hide(key: str) -> list[str]:
    """Return the parts of a label key or resource name that need pseudonyms."""
    domain, slash, end = key.rpartition("/")
    if key in PUBLIC_KEYS or any(
        domain == public or domain.endswith(f".{public}") for public in PUBLIC_DOMAINS
    ):
        return []
    if not slash and end in ("cpu", "memory", "pods", "ephemeral-storage"):
        return []
    return [part for part in (domain, "" if end in LEVEL_WORDS else end) if part]


def _is_time(text: str) -> bool:
    return bool(re.match(r"\d{4}-\d\d-\d\dT", text))


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def anonymised(
    files: Sequence[SnapshotFile], reader: SnapshotReader
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return a snapshot with pseudonyms as JSON data that its reader reads, and their table.

    The table, from original to pseudonym, is for the owner of the snapshot alone.
    """
    document, public = reader.allowed(files)
    pseudonyms = Pseudonyms(document, public)
    return pseudonyms.applied(document), pseudonyms.table
