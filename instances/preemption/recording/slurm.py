"""Record which jobs a real Slurm preempts: ``python -m ....recording.slurm OUT FILE...``.

A controller and one daemon per node run on this machine. ``README.md`` lists what they need.
"""

import os
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Self

from lyra_opt.core.documents import JsonObject
from lyra_opt.core.errors import UserError
from lyra_opt.instances.preemption.recording.cases import environment_with, main, until
from lyra_opt.preemption import Instance

FOLDERS = "LYRA_OPT_SLURM"
PROGRAMS = "slurmctld slurmd sbatch squeue scontrol scancel sinfo"
CONF = Path(__file__).with_name("slurm.conf")
FIRST_PORT = 17001
PATIENCE_S = 60

NODE = "NodeName={} NodeHostName={} NodeAddr=127.0.0.1 Port={} CPUs=64 RealMemory=512000 Gres={}\n"
PARTITION = "PartitionName=tier{0} Nodes=ALL PriorityTier={0} PreemptMode={1}\n"


class Cluster:
    """A Slurm controller, with a daemon per node and a partition per priority of an instance."""

    def __init__(self, instance: Instance, folder: Path) -> None:
        assert instance.demand is not None
        self._folder, self._instance = folder, instance
        environment = environment_with(FOLDERS, PROGRAMS)
        self._environment = {**environment, "SLURM_CONF": str(folder / "slurm.conf")}
        self.nodes = {node.id: f"n{position:04d}" for position, node in enumerate(instance.nodes)}
        self.levels = sorted({*instance.index.priority.tolist(), instance.demand.priority})

    def __enter__(self) -> Self:
        folder, host = self._folder, socket.gethostname().partition(".")[0]
        gpus = {self.nodes[node.id]: node.capacity["gpu"] for node in self._instance.nodes}
        for part in ("state", "spool", "dev", *(f"spool/{name}" for name in gpus)):
            (folder / part).mkdir()
        for gpu in range(max(gpus.values())):  # any character device serves as a GPU, as /dev/null
            os.mknod(folder / f"dev/gpu{gpu}", 0o20600, os.makedev(1, 3))
        conf, devices = CONF.read_text().format(host=host, folder=folder), ""
        for port, (name, count) in enumerate(gpus.items(), FIRST_PORT):
            conf += NODE.format(name, host, port, f"gpu:h100:{count}")
            devices += f"NodeName={name} Name=gpu Type=h100 File={folder}/dev/gpu[0-{count - 1}]\n"
        for rank in range(1, len(self.levels) + 1):
            conf += PARTITION.format(rank, "OFF" if rank == len(self.levels) else "CANCEL")
        (folder / "slurm.conf").write_text(conf)
        (folder / "gres.conf").write_text(devices)
        (folder / "job.sh").write_text("#!/bin/sh\nexec sleep 100000\n")
        self.run("slurmctld")
        for name in gpus:
            self.run("slurmd", "-N", name)
        state = ("sinfo", "-h", "-N", "-p", "tier1", "-o%T")
        if not until(lambda: self.run(*state).split() == ["idle"] * len(gpus), PATIENCE_S):
            self.__exit__()
            raise UserError(f"the nodes of Slurm did not register within {PATIENCE_S} s")
        for name, count in gpus.items():  # some builds register nodes without their GPUs
            self.run("scontrol", "update", f"NodeName={name}", f"Gres=gpu:h100:{count}")
        return self

    def __exit__(self, *_: object) -> None:
        self.run("scancel", "--user=root", check=False)
        until(lambda: not self.jobs(), PATIENCE_S)
        for file in self._folder.glob("*.pid"):
            with suppress(ProcessLookupError):  # a program that ended by itself leaves its file
                os.kill(int(file.read_text()), signal.SIGTERM)
        until(lambda: not any(self._folder.glob("*.pid")), PATIENCE_S)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command of Slurm and return its output."""
        done = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, env=self._environment, cwd=self._folder
        )
        if check and done.returncode:
            raise UserError(f"{' '.join(command)}: {done.stderr.strip()}")
        return done.stdout

    def jobs(self, state: str = "") -> list[str]:
        """Return the names of all jobs, or of the jobs in a state such as RUNNING."""
        rows = self.run("squeue", "-h", "-o%j|%T", check=False).split()
        return [row.partition("|")[0] for row in rows if row.endswith(f"|{state}" if state else "")]

    def submit(self, name: str, priority: int, gpus: int, *where: str) -> None:
        """Submit a job with one task and `gpus` GPUs on each of its nodes."""
        job = ("--ntasks-per-node=1", "--mem=1G", f"--gres=gpu:h100:{gpus}", "job.sh")
        tier = f"tier{self.levels.index(priority) + 1}"
        self.run("sbatch", "-Q", "-o/dev/null", "-J", name, "-p", tier, *where, *job)


def record(instance: Instance, folder: Path, _: bool) -> JsonObject:
    """Start Slurm, run the gangs of an instance, and return whom the pending gang preempts."""
    with Cluster(instance, folder) as cluster:
        return _decision(cluster, instance)


def _decision(cluster: Cluster, instance: Instance) -> JsonObject:
    demand = instance.demand
    assert demand is not None
    (shape,) = demand.shapes
    names = {f"g{position}": gang for position, gang in enumerate(instance.gangs)}
    for name, gang in names.items():
        requests = {group.request.get("gpu", 0) for group in gang.pods}
        nodes = {cluster.nodes[group.node] for group in gang.pods}
        is_job = len(requests) == 1 and len(nodes) == gang.size == gang.min_pods
        if not is_job or shape.max_per_node != 1:
            rule = (
                "must be a whole job with one pod per node and equal requests, and the pending "
                "pods need max_per_node 1"
            )
            raise UserError(f"instance {instance.name!r}: gang {gang.id!r} {rule}")
        cluster.submit(name, gang.priority, requests.pop(), "-w", ",".join(sorted(nodes)))
    if not until(lambda: len(cluster.jobs("RUNNING")) == len(names), PATIENCE_S):
        raise UserError(f"instance {instance.name!r}: Slurm did not start all its gangs")
    cluster.submit("pending", demand.priority, shape.request.get("gpu", 0), f"-N{shape.count}")
    is_started = until(lambda: "pending" in cluster.jobs("RUNNING"), PATIENCE_S)
    until(lambda: cluster.jobs() == cluster.jobs("RUNNING"), PATIENCE_S)
    left = cluster.jobs("RUNNING")
    hosts = cluster.run("squeue", "-h", "-n", "pending", "-o%N").strip()
    on = cluster.run("scontrol", "show", "hostnames", hosts).split() if is_started else []
    names_of = {name: node for node, name in cluster.nodes.items()}
    return {
        "solver": "slurm",
        "program": f"slurm-wlm {cluster.run('squeue', '--version').split()[-1]}",
        "mode": "partition_prio, CANCEL, reorder 1",
        "lost": {
            gang.id: list(range(gang.size)) for name, gang in names.items() if name not in left
        },
        "on": [names_of[host] for host in on],
        "started": is_started,
    }


if __name__ == "__main__":
    main(record)
