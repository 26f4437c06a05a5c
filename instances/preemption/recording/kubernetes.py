"""Record what a real kube-scheduler preempts: ``python -m ....recording.kubernetes OUT FILE...``.

etcd, kube-apiserver and kube-scheduler run on this machine, without kubelets: nodes and pods are
only objects of the API. ``README.md`` lists what they need.
"""

import json
import ssl
import subprocess
import time
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Self
from urllib.request import Request, urlopen

from lyra_opt.core.documents import JsonObject
from lyra_opt.core.errors import UserError
from lyra_opt.instances.preemption.recording.cases import POLL_S, environment_with, main, until
from lyra_opt.preemption import Instance

FOLDERS = "LYRA_OPT_KUBERNETES"
SETTINGS = tomllib.loads(Path(__file__).with_name("kubernetes.toml").read_text(encoding="utf-8"))
PROGRAMS = " ".join(SETTINGS["commands"])
API = "https://127.0.0.1:26443"
TOKEN = "recording"  # noqa: S105  # the server listens on this machine only
CORE, SCHEDULING = "/api/v1", "/apis/scheduling.k8s.io"
PODS, NODES = f"{CORE}/namespaces/default/pods", f"{CORE}/nodes"
CLASSES = f"{SCHEDULING}/v1/priorityclasses"
GROUPS = f"{SCHEDULING}/v1alpha2/namespaces/default/podgroups"
MODES = {
    False: "single pods, no groups",
    True: "PodGroups (v1alpha2), disruptionMode PodGroup for gangs of several pods",
}
NODE_HAS = {"cpu": 128_000, "memory": 2**40}
"""CPU (milli-CPUs) and memory (bytes) of nodes if the instance does not state them."""
RESOURCES = {"gpu": "nvidia.com/gpu", "cpu": "cpu", "memory": "memory"}
PATIENCE_S = 120
CALM_POLLS = 40
START_S = 10 * 86_400


class ControlPlane:
    """A Kubernetes API server with its store, and a scheduler in its default configuration."""

    def __init__(self, folder: Path, *, has_gangs: bool) -> None:
        self._folder, self.has_gangs = folder, has_gangs
        self._environment = environment_with(FOLDERS, PROGRAMS)
        self._processes: list[subprocess.Popen[bytes]] = []
        self._tls = ssl._create_unverified_context()  # noqa: S323, SLF001

    def __enter__(self) -> Self:
        for name, text in SETTINGS["files"].items():
            (self._folder / name).write_text(text.replace("FOLDER", str(self._folder)))
        for program, options in SETTINGS["commands"].items():
            further = SETTINGS["gangs"].get(program, "") if self.has_gangs else ""
            command = f"{program} {options} {further}".replace("FOLDER", str(self._folder)).split()
            with (self._folder / f"{program}.log").open("wb") as log:
                process = subprocess.Popen(  # noqa: S603
                    command, stdout=log, stderr=log, env=self._environment
                )
            if program == "openssl":
                process.wait()
                continue
            self._processes.append(process)
            if program == "kube-apiserver" and not until(self._is_ready, PATIENCE_S):
                self.__exit__()
                raise UserError(f"kube-apiserver was not ready within {PATIENCE_S} s")
        return self

    def _is_ready(self) -> bool:
        with suppress(OSError):
            return bool(self.ask("GET", f"{CORE}/namespaces/default"))
        return False

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
            process.wait()

    def ask(self, method: str, path: str, body: Any = None, kind: str = "json") -> JsonObject:
        """Send a request to the API server and return its answer."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": f"application/{kind}"}
        data = None if body is None else json.dumps(body).encode()
        request = Request(API + path, data, headers, method=method)  # noqa: S310
        with urlopen(request, context=self._tls, timeout=30) as answer:  # noqa: S310
            found: JsonObject = json.load(answer)
        return found

    def create(self, path: str, name: str, **parts: Any) -> None:
        """Create an object of the API, and then set its status if one is given."""
        status = parts.pop("status", None)
        self.ask("POST", path, {"metadata": {"name": name}, **parts})
        if status is not None:
            self.ask("PATCH", f"{path}/{name}/status", {"status": status}, "merge-patch+json")

    def create_pod(self, name: str, amounts: Mapping[str, str], rank: int, **parts: Any) -> None:
        """Create a pod without a grace period; `parts` are further parts of the object."""
        limits = {resource: value for resource, value in amounts.items() if "/" in resource}
        needs = {"requests": amounts, "limits": limits}
        spec = {
            "containers": [{"name": "c", "image": "none", "resources": needs}],
            "priorityClassName": f"p{rank}",
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"operator": "Exists"}],
            **parts.pop("spec", {}),
        }
        self.create(PODS, name, spec=spec, **parts)

    def pods(self) -> dict[str, str | None]:
        """Return the node of each pod by name; None for a pod that is not bound yet."""
        items = self.ask("GET", PODS)["items"]
        return {each["metadata"]["name"]: each["spec"].get("nodeName") for each in items}


def _quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    """Return amounts as quantities of Kubernetes; names of other resources get a domain."""
    return {
        RESOURCES.get(name, f"lyra-opt.example/{name}"): f"{amount}{'m' if name == 'cpu' else ''}"
        for name, amount in amounts.items()
    }


def record(instance: Instance, folder: Path, has_gangs: bool) -> JsonObject:
    """Start Kubernetes, create the objects of an instance, and return the decision."""
    with ControlPlane(folder, has_gangs=has_gangs) as plane:
        return _decision(plane, instance)


def _decision(plane: ControlPlane, instance: Instance) -> JsonObject:
    demand = instance.demand
    assert demand is not None
    (shape,) = demand.shapes
    levels = sorted({gang.priority for gang in instance.gangs} | {demand.priority})
    for rank, level in enumerate(levels):
        plane.create(CLASSES, f"p{rank}", value=level)
    for position, node in enumerate(instance.nodes):
        has = {**_quantities({**NODE_HAS, **node.capacity}), "pods": "110"}
        ready = [{"type": "Ready", "status": "True"}]
        status = {"capacity": has, "allocatable": has, "conditions": ready}
        plane.create(NODES, f"n{position}", status=status)
    now_s, first_s = time.time(), min((gang.start_s for gang in instance.gangs), default=0.0)
    for g, gang in enumerate(instance.gangs):
        rank, spec = levels.index(gang.priority), {}
        if plane.has_gangs and gang.size > 1:
            _create_group(plane, f"g{g}", gang.min_pods, rank, disruptionMode="PodGroup")
            spec = {"schedulingGroup": {"podGroupName": f"g{g}"}}
        since = time.gmtime(now_s - START_S + gang.start_s - first_s)  # the API rounds to seconds
        status = {"phase": "Running", "startTime": time.strftime("%Y-%m-%dT%H:%M:%SZ", since)}
        pods = [group for group in gang.pods for _ in range(group.count)]
        for pod, group in enumerate(pods):
            bound = {**spec, "nodeName": f"n{instance.node_position[group.node]}"}
            amounts = _quantities(group.request)
            plane.create_pod(f"g{g}-{pod}", amounts, rank, spec=bound, status=status)
    time.sleep(1.0)  # until the scheduler has seen all objects
    before, rank, spec = plane.pods(), levels.index(demand.priority), {}
    if plane.has_gangs:
        _create_group(plane, "pending", shape.min_count, rank)
        spec = {"schedulingGroup": {"podGroupName": "pending"}}
    for pod in range(shape.count):
        amounts = _quantities(shape.request)
        plane.create_pod(f"pending-{pod}", amounts, rank, spec=spec)
    after = _settled(plane)
    lost: dict[str, list[int]] = {}
    for name in sorted(before.keys() - after.keys()):
        g, pod = map(int, name[1:].split("-"))
        lost.setdefault(instance.gangs[g].id, []).append(pod)
    on = {name: node for name, node in after.items() if name not in before and node is not None}
    return {
        "solver": "kube-gang" if plane.has_gangs else "kube-pods",
        "program": f"kube-scheduler {plane.ask('GET', '/version')['gitVersion'].lstrip('v')}",
        "mode": MODES[plane.has_gangs],
        "lost": {gang: sorted(pods) for gang, pods in lost.items()},
        "on": [instance.nodes[int(node[1:])].id for node in on.values()],
        "started": len(on) >= shape.min_count,
    }


def _create_group(plane: ControlPlane, name: str, pods: int, rank: int, **more: str) -> None:
    policy = {"gang": {"minCount": pods}}
    spec = {"schedulingPolicy": policy, "priorityClassName": f"p{rank}", **more}
    plane.create(GROUPS, name, spec=spec)


def _settled(plane: ControlPlane) -> dict[str, str | None]:
    """Return the pods when all have nodes, or when nothing has changed for a while."""
    calm, last = 0, plane.pods()
    while not all(last.values()) and calm < CALM_POLLS:
        time.sleep(POLL_S)
        pods = plane.pods()
        calm, last = (calm + 1 if pods == last else 0), pods
    return last


if __name__ == "__main__":
    main(record)
