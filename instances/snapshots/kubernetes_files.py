"""Decode the objects in files that ``kubectl get ... -o json`` writes, and in KAI's snapshots."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Raw

from lyra_opt.core.errors import InputError
from lyra_opt.instances.snapshots import kai
from lyra_opt.instances.snapshots.json_errors import damage, mistyped
from lyra_opt.instances.snapshots.kubernetes_objects import (
    BindRequest,
    KubernetesObject,
    Node,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PriorityClass,
    ResourceClaim,
    ResourceSlice,
    Workload,
)
from lyra_opt.instances.snapshots.owners import (
    KINDS,
    NATIVE,
    POD_GROUP_MARKS,
    POD_GROUP_SYSTEMS,
    WORKLOAD,
    group_of,
)
from lyra_opt.instances.snapshots.reader import SnapshotFile

DRA = "resource.k8s.io"
CLASSES: dict[tuple[str, str], type[KubernetesObject]] = {
    **dict.fromkeys(KINDS, KubernetesObject),
    ("Node", ""): Node,
    ("Pod", ""): Pod,
    ("PriorityClass", NATIVE): PriorityClass,
    ("PodDisruptionBudget", "policy"): PodDisruptionBudget,
    **{("PodGroup", system): PodGroup for system in POD_GROUP_SYSTEMS},
    ("Workload", WORKLOAD): Workload,
    ("BindRequest", "scheduling.run.ai"): BindRequest,
    ("ResourceClaim", DRA): ResourceClaim,
    ("ResourceSlice", DRA): ResourceSlice,
}
"""The class of each kind of objects that are read, by kind and API group."""

READ_ANNOTATIONS = {mark for mark, _ in POD_GROUP_MARKS} | {"kubernetes.io/config.mirror"}
"""The annotations that are read whatever their value is."""

Text: TypeAlias = Raw | memoryview
_TRAILING = re.compile(r"trailing characters \(byte (\d+)\)")

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


class _Header(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""  # noqa: N815


class _Document(_Header):
    """A JSON document: a list of objects, one object, or a snapshot of KAI."""

    items: list[Raw] | None = None
    rawObjects: dict[str, list[Raw] | None] | None = None  # noqa: N815


class _Name(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Name


_DECODE_DOCUMENT = msgspec.json.Decoder(_Document).decode
_DECODE_HEADER = msgspec.json.Decoder(_Header).decode
_DECODERS = {each: msgspec.json.Decoder(each) for each in set(CLASSES.values())}


@dataclass(slots=True)
class Objects:
    """The objects of all files, in the order of the files.

    Parameters
    ----------
    by_class
        Pairs of the file's name and an object, by class.
    unknown
        Number of objects of kinds that are not read, by kind.
    versions
        The API versions of the objects.
    """

    by_class: dict[type[KubernetesObject], list[tuple[str, KubernetesObject]]] = field(
        default_factory=dict
    )
    unknown: Counter[str] = field(default_factory=Counter)
    versions: set[str] = field(default_factory=set)

    def of(self, kind: type[ObjectT]) -> list[tuple[str, ObjectT]]:
        """Return pairs of the file's name and an object, for all objects of a class."""
        return self.by_class.get(kind, [])  # type: ignore[return-value]


def objects_of(files: Sequence[SnapshotFile]) -> Objects:
    """Return the objects in some files, with only the fields that a plan needs.

    Raises
    ------
    InputError
        If a file is not JSON, is cut short, or a field has a wrong type; the message names the
        object and the field.
    """
    objects = Objects()
    for file in files:
        try:
            _add(objects, file)
        except UnicodeDecodeError:
            raise InputError(file.source, "is not UTF-8 text") from None
    return objects


def _add(objects: Objects, file: SnapshotFile) -> None:
    """Add the objects of a file."""
    for kind, version, text in _items_of(file):
        decoded = CLASSES.get((kind, group_of(version)))
        if decoded is None:
            objects.unknown[kind or "(no kind)"] += 1
            continue
        try:
            each = _DECODERS[decoded].decode(text)
        except msgspec.ValidationError as error:
            raise InputError(file.source, f"{_title(kind, text)}: {mistyped(error)}") from None
        if not each.metadata.name:
            raise InputError(file.source, f"an object of kind {kind}: metadata.name is missing")
        each.kind, each.api_version = kind, version
        objects.versions.add(version)
        objects.by_class.setdefault(decoded, []).append((file.source, each))


def _items_of(file: SnapshotFile) -> Iterator[tuple[str, str, Text]]:
    """Yield kind, API version and text of the objects in a file."""
    content = file.content
    if content.startswith(b"PK\x03\x04"):
        content = kai.unzipped(file.source, content)
    for document, text in _documents(file.source, content):
        if document.rawObjects is not None:
            yield from kai.items_of(document.rawObjects)
        elif document.items is None:
            yield document.kind, document.apiVersion, text
        else:
            kind = document.kind.removesuffix("List")
            for index, item in enumerate(document.items):
                try:
                    header = _DECODE_HEADER(item)
                except msgspec.ValidationError as error:
                    raise InputError(file.source, f"items[{index}]: {mistyped(error)}") from None
                yield header.kind or kind, header.apiVersion or document.apiVersion, item


def _documents(source: str, content: bytes) -> Iterator[tuple[_Document, memoryview]]:
    """Yield the JSON documents that follow one another in a file; mostly it is one."""
    rest = memoryview(content)
    while True:
        try:
            yield _DECODE_DOCUMENT(rest), rest
        except msgspec.ValidationError as error:
            raise InputError(source, f"is not a Kubernetes list: {mistyped(error)}") from None
        except (msgspec.DecodeError, RecursionError) as error:
            trailing = _TRAILING.search(str(error))
            if trailing is None:
                raise InputError(source, damage(error, len(content) - len(rest))) from None
            end = int(trailing[1]) - 1  # msgspec has passed the first character of the next one
            yield _DECODE_DOCUMENT(rest[:end]), rest[:end]
            rest = rest[end:]
        else:
            return


def _title(kind: str, text: Text) -> str:
    """Return the kind and the name of an object that could not be decoded."""
    try:
        named = msgspec.json.decode(text, type=_Named).metadata
    except msgspec.ValidationError:
        return f"an object of kind {kind}"
    return titled(kind, named.namespace, named.name)


def titled(kind: str, namespace: str, name: str) -> str:
    """Return the kind and the full name of an object, for messages."""
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def allowed_fields(files: Sequence[SnapshotFile]) -> tuple[dict[str, Any], set[str]]:
    """Return a list of all objects with only the fields that are read, and the public texts.

    Annotations stay only if they are read: as marks of gangs, or as numbers and times.
    """
    objects = objects_of(files)
    items = []
    for pairs in objects.by_class.values():
        for _, each in pairs:
            if each.metadata.annotations:
                each.metadata.annotations = {
                    key: text
                    for key, text in each.metadata.annotations.items()
                    if key in READ_ANNOTATIONS
                    or re.fullmatch(r"-?[\d.]+|true|false|\d{4}-.*", text)
                }
            items.append(msgspec.to_builtins(each))
    kinds = {kind for kind, _ in (*CLASSES, *KINDS)}
    public = {"v1", "List", *kinds, *objects.versions, *(f"{group}/v1" for _, group in KINDS)}
    return {"apiVersion": "v1", "kind": "List", "items": items}, public
