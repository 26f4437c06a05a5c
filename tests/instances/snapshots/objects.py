"""Builders of Kubernetes objects and Slurm records for tests, and the comparison of snapshots."""

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from itertools import zip_longest

from lyra_opt.instances.snapshots.reading import read_snapshot
from lyra_opt.instances.snapshots.slurm_names import hosts


def node(name="n1", *, gpus=8, **more):
    """Return a node; further keys belong to its status."""
    allocatable = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": str(gpus), "pods": "110"}
    metadata = {"name": name, "labels": more.pop("labels", {})}
    spec = more.pop("spec", {})
    status = {"allocatable": allocatable | more.pop("allocatable", {}), **more}
    return core_object("Node", metadata, spec, status)


def core_object(kind, metadata, spec, status):
    fields = {"metadata": metadata, "spec": spec, "status": status}
    return {"apiVersion": "v1", "kind": kind, **fields}


def container(text):
    """Return a container from its CPUs and its restart policy, such as ``1 Always``."""
    cpu, _, policy = text.partition(" ")
    return {"resources": {"requests": {"cpu": cpu}}} | ({"restartPolicy": policy} if policy else {})


def metadata_of(name, more):
    """Take the metadata out of the keys of an object; ``owner`` is like ``batch/v1 Job train``."""
    metadata = {"name": name, "namespace": "team"}
    for key in ("namespace", "labels", "annotations", "deletionTimestamp"):
        if key in more:
            metadata[key] = more.pop(key)
    if "owner" in more:
        version, kind, owner = more.pop("owner").split()
        reference = {"apiVersion": version, "kind": kind, "name": owner, "controller": True}
        return {**metadata, "ownerReferences": [reference]}
    return metadata


def pod(name="p", on="n1", *, gpus=1, **more):
    """Return a pod, pending if `on` is empty; keys that are not of its metadata are of its spec."""
    metadata = metadata_of(name, more)
    status = {"phase": "Running" if on else "Pending"} | more.pop("status", {})
    resources = {"requests": {"cpu": "1"}, "limits": {"nvidia.com/gpu": str(gpus)} if gpus else {}}
    spec = {"containers": [{"name": "main", "image": "x", "resources": resources}]} | more
    for key in ("initContainers", "containers"):
        spec[key] = [container(c) if isinstance(c, str) else c for c in spec.get(key, ())]
    if on:
        spec["nodeName"] = on
    return core_object("Pod", metadata, spec, status)


def custom(title, spec=None, **more):
    """Return any object; its title is like ``batch/v1 Job train``."""
    version, kind, name = title.split()
    metadata = metadata_of(name, more)
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec or {}, **more}


def built(entry):
    """Return the objects of an entry in a table of tests: ``count`` pods, a node, or another."""
    entry = dict(entry)
    if "pod" in entry:
        name, count = entry.pop("pod"), entry.pop("count", 0)
        names = [f"{name}{place}" for place in range(count)] if count else [name]
        return [pod(each, **entry) for each in names]
    return [node(entry.pop("node"), **entry) if "node" in entry else custom(**entry)]


def listed(*objects):
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def snapshot_of(folder, entries, **options):
    """Read objects beside a pod of another namespace, which has ended, and by default a node."""
    ended = {"pod": "ended", "namespace": "kube-system", "status": {"phase": "Succeeded"}}
    default = [] if any("node" in entry for entry in entries) else [{"node": "n1"}]
    objects = [each for entry in (*default, *entries, ended) for each in built(entry)]
    path = folder / "cluster.json"
    path.write_text(json.dumps(listed(*objects)), encoding="utf-8")
    return read_snapshot([path], **options)


def shown(value, wanted):
    """Return the parts of a value that an expectation names, as a TOML file writes them."""
    if is_dataclass(value) and isinstance(wanted, dict):
        return {name: shown(getattr(value, name), each) for name, each in wanted.items()}
    if isinstance(value, tuple):
        wanted = wanted if isinstance(wanted, list) else []
        return [shown(each, part) for each, part in zip_longest(value, wanted)]
    return dict(value) if isinstance(value, Mapping) else "None" if value is None else value


def as_printed(value):
    """Return a value as the data parsers of Slurm print it: a number is an object."""
    if value is None or type(value) is int:
        return {"set": value is not None, "infinite": False, "number": value or 0}
    return value


def job(job_id=1, state="RUNNING", on="", version="v0.0.43", **fields):
    """Return a job on some nodes as the data parsers print it, with 2 CPUs and 1 GiB on each."""
    names, gpus = hosts(on), fields.pop("gpus", 0)
    held = {"cpus": {"count": 2}, "memory": {"allocated": 1024}}
    allocation = {"list": on, "allocation": [{"name": each, **held} for each in names]}
    tres = f"cpu={2 * len(names)},mem={len(names)}G,node={len(names)}"
    fields = {
        **dict.fromkeys(("array_job_id", "het_job_id"), 0),
        "array_task_id": None,
        "tasks": 1,
        "node_count": len(names) or 1,
        "start_time": 1000,
        "partition": "low",
        "job_state": state if version == "v0.0.39" else state.split(","),
        "user_name": "alice",
        "nodes": on,
        "gres_detail": [f"gpu:h100:{gpus}(IDX:0-{gpus - 1})" if gpus else ""] * len(names),
        "tres_alloc_str": tres if names else "",
        "tres_req_str": tres if names else "cpu=2,mem=1G,node=1",
        "tres_per_node": f"gres/gpu:{gpus}" if gpus else "",
        "job_resources": {"nodes": on if version < "v0.0.41" else allocation},
        **fields,
    }
    return {"job_id": job_id} | {key: as_printed(value) for key, value in fields.items()}


def slurm_node(name, used=0, **fields):
    """Return a node with 8 GPUs as the data parsers print it."""
    return {
        "name": name,
        "state": ["IDLE"],
        "cpus": 64,
        "effective_cpus": 62,
        "real_memory": 2048,
        "specialized_memory": 1024,
        "gres": "gpu:h100:8(S:0-1)",
        "gres_used": f"gpu:h100:{used}(IDX:N/A)",
        "partitions": ["low", "high"],
        "features": ["ib", "nvme"],
        **fields,
    }
