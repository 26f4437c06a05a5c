"""Replace the names in a snapshot by pseudonyms, so that its owner can show it to others.

The input is what a reader allows: the fields that a plan needs, and no others. In it, every text is
replaced unless a table here keeps it. Pseudonyms sort as the texts that they replace, so that ties
between plans are broken alike, and equal texts have equal pseudonyms, so that references hold.
Times are shifted by the same amount. Numbers and quantities stay.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any

import msgspec

from lyra_opt.instances.snapshots.reader import SnapshotFile, SnapshotReader
from lyra_opt.instances.snapshots.snapshot import GPU_TYPES

_WORDS = msgspec.toml.decode(
    files("lyra_opt.instances.snapshots").joinpath("anonymise.toml").read_text("utf-8"),
    type=dict[str, frozenset[str]],
)
"""Groups of fields and of texts; the comments of ``anonymise.toml`` explain them."""

TRES_FIELDS = re.compile("tres_.*|gres.*|[a-z]*Gres")
"""The fields with amounts of resources in the notation of Slurm."""

NEWEST = datetime(2000, 1, 1, tzinfo=UTC)
"""The newest time in the result."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT")
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
        times: set[datetime] = set()

        def collect(role: str, text: str) -> str:
            if role == "time":
                times.add(datetime.fromisoformat(text))
            else:
                names.update(_parts_to_hide(text) if role == "key" else [text])
            return text

        _rewritten(document, collect)
        names -= set(public)
        width = len(str(len(names)))
        self.table: Mapping[str, str] = {
            name: f"x{place:0{width}}" for place, name in enumerate(sorted(names))
        }
        """The pseudonym of each text."""
        self._shift = NEWEST - max(times) if times else timedelta()

    def applied(self, document: Any) -> Any:
        """Return a document with all names replaced and all times shifted."""
        return _rewritten(document, self._pseudonym)

    def _pseudonym(self, role: str, text: str) -> str:
        if role == "time":
            return f"{datetime.fromisoformat(text) + self._shift:%Y-%m-%dT%H:%M:%SZ}"
        if role == "name":
            return self.table.get(text, text)
        hidden = _parts_to_hide(text)
        domain, slash, end = text.rpartition("/")
        parts = (self.table.get(part, part) if part in hidden else part for part in (domain, end))
        return slash.join(parts)


def _rewritten(
    value: Any, change: Callable[[str, str], str], field: str = "", key: str = ""
) -> Any:
    """Return a document in which a function of role and text replaces the texts that do not stay.

    The roles are time, key and name. `field` is the name of the field that contains the value, and
    `key` the key of its label.
    """
    if isinstance(value, dict):
        if field in _WORDS["quantity_fields"]:
            return {change("key", name): amount for name, amount in value.items()}
        if field in _WORDS["keyed_fields"]:
            return {
                change("key", name): _rewritten(text, change, field, name)
                for name, text in value.items()
            }
        inner = str(value.get("key", ""))
        return {
            name: change("key", each)
            if name == "key" and isinstance(each, str)
            else _rewritten(each, change, name, inner)
            for name, each in value.items()
        }
    if isinstance(value, list | tuple):
        return [_rewritten(each, change, field, key) for each in value]
    if isinstance(value, str) and (role := _role(value, field, key)):
        return change(role, value)
    return value


def _role(text: str, field: str, key: str) -> str:
    """Return the role of a text: a time, a name, or (empty) a text that stays."""
    if field in _WORDS["time_fields"] or (field == "annotations" and _TIME.match(text)):
        return "time"
    if field in _WORDS["kept_fields"] or TRES_FIELDS.fullmatch(field) or key in GPU_TYPES:
        return ""
    return "" if _NUMBER.fullmatch(text) else "name"


def _parts_to_hide(key: str) -> list[str]:
    """Return the parts of a label key or resource name that need pseudonyms."""
    domain, slash, end = key.rpartition("/")
    if key in _WORDS["public_keys"] or any(
        domain == public or domain.endswith(f".{public}") for public in _WORDS["public_domains"]
    ):
        return []
    if not slash and end in ("cpu", "memory", "pods", "ephemeral-storage"):
        return []
    return [part for part in (domain, "" if end in _WORDS["level_words"] else end) if part]


def anonymised(
    files: Sequence[SnapshotFile], reader: SnapshotReader
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return a snapshot with pseudonyms as JSON data that its reader reads, and their table.

    The table, from original to pseudonym, is for the owner of the snapshot alone.
    """
    document, public = reader.allowed(files)
    pseudonyms = Pseudonyms(document, public)
    return pseudonyms.applied(document), pseudonyms.table
