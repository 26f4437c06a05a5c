"""The ``snapshot.zip`` that KAI's scheduler writes: raw Kubernetes objects in one JSON file.

Source: NVIDIA/KAI-Scheduler, ``pkg/scheduler/plugins/snapshot/snapshot.go``. The objects carry no
kind, because Go drops it.
"""

import io
import zipfile
import zlib

from msgspec import Raw

from lyra_opt.core.errors import InputError, show_value

MEMBER = "snapshot.json"
LARGEST_MEMBER_BYTES = 2 * 2**30
KINDS = {
    "nodes": ("Node", "v1"),
    "pods": ("Pod", "v1"),
    "podGroups": ("PodGroup", "scheduling.run.ai/v2alpha2"),
    "bindRequests": ("BindRequest", "scheduling.run.ai/v1alpha2"),
    "priorityClasses": ("PriorityClass", "scheduling.k8s.io/v1"),
    "resourceClaims": ("ResourceClaim", "resource.k8s.io/v1"),
    "resourceSlices": ("ResourceSlice", "resource.k8s.io/v1"),
}
"""Kind and API version of the lists in ``rawObjects`` that are read."""


def unzipped(source: str, content: bytes) -> bytes:
    """Return the JSON text in a ``snapshot.zip``; `InputError` without it or if it is damaged."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if MEMBER not in archive.namelist():
                held = ", ".join(map(show_value, archive.namelist()[:3])) or "nothing"
                raise InputError(source, f"holds {held}, but no {MEMBER} of KAI")
            if archive.getinfo(MEMBER).file_size > LARGEST_MEMBER_BYTES:
                limit = LARGEST_MEMBER_BYTES // 2**30
                raise InputError(source, f"{MEMBER} is larger than {limit} GiB once unpacked")
            return archive.read(MEMBER)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(source, f"is a damaged or truncated zip archive ({error})") from None


def items_of(raw_objects: dict[str, list[Raw] | None]) -> list[tuple[str, str, Raw]]:
    """Return kind, API version and text of all objects in ``rawObjects`` that are read."""
    return [
        (*KINDS[name], item)
        for name, items in raw_objects.items()
        if name in KINDS
        for item in items or ()
    ]
