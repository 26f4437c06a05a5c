"""The fields of Slurm's JSON and text output that a snapshot reads, as records.

The JSON differs between versions: openapi v0.0.38 (Slurm 22.05) and the data parsers v0.0.39 to
v0.0.46. Fields whose type changed are read as they are; `lyra_opt.instances.snapshots.slurm`
interprets them. Source: ``src/plugins/data_parser/*/parsers.c`` of SchedMD/slurm, and the output
of Slurm 22.05.8.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from lyra_opt.core.errors import InputError
from lyra_opt.instances.snapshots.slurm_names import hosts, memory_bytes, seconds

QUEUE_FORMAT = "%A|%F|%K|%T|%P|%q|%a|%u|%D|%C|%m|%b|%N|%S|%j"
"""The format of ``squeue --format`` that the reader of text expects."""

QUEUE_HEADER = (
    "JOBID|ARRAY_JOB_ID|ARRAY_TASK_ID|STATE|PARTITION|QOS|ACCOUNT|USER|NODES|CPUS|MIN_MEMORY|"
    "TRES_PER_NODE|NODELIST|START_TIME|NAME"
)
"""The first line of its output."""


class SlurmJob(msgspec.Struct, kw_only=True):
    """A job of ``squeue``, or a task of an array job."""

    job_id: int
    job_state: Any
    array_job_id: Any = None
    array_task_id: Any = None
    array_task_string: str | None = ""
    het_job_id: Any = None
    name: str = ""
    partition: str = ""
    qos: str | None = ""
    account: str | None = ""
    user_name: str | None = ""
    nodes: str | None = ""
    node_count: Any = None
    cpus: Any = None
    tasks: Any = None
    tasks_per_node: Any = None
    memory_per_node: Any = None
    memory_per_cpu: Any = None
    gres_detail: list[str] | None = None
    tres_alloc_str: str | None = ""
    tres_req_str: str | None = ""
    tres_per_node: str | None = ""
    tres_per_job: str | None = ""
    tres_per_task: str | None = ""
    features: str | None = ""
    requeue: bool | None = True
    start_time: Any = None
    submit_time: Any = None
    job_resources: Any = None


class SlurmNode(msgspec.Struct, kw_only=True):
    """A node of ``scontrol show nodes`` or ``sinfo``."""

    name: str
    state: Any = ""
    state_flags: list[str] | None = None
    cpus: Any = 0
    effective_cpus: Any = None
    real_memory: Any = 0
    specialized_memory: Any = 0
    gres: str | None = ""
    gres_used: str | None = ""
    partitions: Any = ()
    features: Any = ""
    reservation: str | None = ""


class _SinfoNames(msgspec.Struct):
    nodes: list[str]


class _SinfoNode(msgspec.Struct):
    state: Any = ""


class _SinfoRange(msgspec.Struct):
    maximum: int = 0


class _SinfoGres(msgspec.Struct):
    total: str = ""
    used: str = ""


class _SinfoFeatures(msgspec.Struct):
    total: str = ""


class _SinfoPartition(msgspec.Struct):
    name: str = ""


class _SinfoRow(msgspec.Struct):
    """A group of alike nodes of one partition, as ``sinfo --json`` prints since version 23.02."""

    nodes: _SinfoNames
    node: _SinfoNode
    cpus: _SinfoRange
    memory: _SinfoRange
    gres: _SinfoGres
    features: _SinfoFeatures
    partition: _SinfoPartition


class _Output(msgspec.Struct):
    """The output of a command with ``--json``."""

    jobs: list[SlurmJob] = []
    nodes: list[SlurmNode] = []
    sinfo: list[_SinfoRow] = []
    meta: dict[str, Any] = {}
    last_update: Any = None
    tables: dict[str, dict[str, dict[str, str]]] = {}


class Records(msgspec.Struct, kw_only=True):
    """Everything that the files of a snapshot say, before it is interpreted."""

    jobs: list[SlurmJob] = []
    nodes: dict[str, SlurmNode] = {}
    partitions: dict[str, dict[str, str]] = {}
    qos: dict[str, dict[str, str]] = {}
    switches: dict[str, dict[str, str]] = {}
    versions: dict[str, None] = {}
    newest_s: float = 0.0
    has_text_jobs: bool = False

    def read(self, source: str, content: bytes) -> None:
        """Add what a file says.

        Raises
        ------
        InputError
            If the file is damaged, or is not output of Slurm.
        """
        if content.lstrip()[:1] == b"{":
            self._read_json(source, content)
            return
        text = content.decode("utf-8", errors="replace")
        for block in re.split(r"\n(?=\S)", text.strip()):
            try:
                self._read_block(block)
            except ValueError as error:
                raise InputError(source, f"{error}") from None

    def allowed(self) -> tuple[dict[str, Any], set[str]]:
        """Return the records as JSON data that this class reads again, and the public texts.

        Lists of hosts are written host by host, so that each name can get a pseudonym.
        """
        for job in self.jobs:
            job.nodes = ",".join(hosts(job.nodes or ""))
        for switch in self.switches.values():
            switch["Nodes"] = ",".join(hosts(switch.get("Nodes", "")))
        tables = {"partitions": self.partitions, "qos": self.qos, "switches": self.switches}
        document = {"jobs": self.jobs, "nodes": [*self.nodes.values()], "tables": tables}
        found: dict[str, Any] = msgspec.to_builtins(document)
        return found, set()

    def _read_json(self, source: str, content: bytes) -> None:
        try:
            output = msgspec.json.decode(content, type=_Output)
        except msgspec.MsgspecError as error:
            raise InputError(source, f"is not output of Slurm: {error}") from None
        self.jobs += output.jobs
        for node in output.nodes:
            self.nodes[node.name] = node
        self.partitions |= output.tables.get("partitions", {})
        self.qos |= output.tables.get("qos", {})
        self.switches |= output.tables.get("switches", {})
        for row in output.sinfo:
            for name in row.nodes.nodes:
                known = self.nodes.get(name)
                partitions = (
                    [*known.partitions, row.partition.name] if known else [row.partition.name]
                )
                self.nodes[name] = SlurmNode(
                    name=name,
                    state=row.node.state,
                    cpus=row.cpus.maximum,
                    real_memory=row.memory.maximum,
                    gres=row.gres.total,
                    features=row.features.total,
                    partitions=partitions,
                )
        plugin = output.meta.get("plugin") or {}
        slurm = output.meta.get("slurm") or output.meta.get("Slurm") or {}
        parser = plugin.get("data_parser") or plugin.get("type") or "unknown parser"
        self.versions[f"Slurm {slurm.get('release', '')}, {parser}"] = None

    def _read_block(self, block: str) -> None:
        """Read one entry of a text: its first line begins in the first column."""
        kind = block.partition("=")[0]
        if block.startswith("JOBID|"):
            self.has_text_jobs = True
            if block.partition("\n")[0].strip() != QUEUE_HEADER:
                raise ValueError(f"squeue must be called with --format='{QUEUE_FORMAT}'")
            return
        if self.has_text_jobs and block.count("|") >= QUEUE_HEADER.count("|"):
            self.jobs.append(_job_of_line(block))
            return
        if re.match(r"Name\|", block):
            self.qos[""] = dict.fromkeys(block.strip().split("|"), "")
            return
        if self.qos and "|" in block and "=" not in block.partition("|")[0]:
            row = dict(zip(self.qos[""], block.strip().split("|"), strict=False))
            self.qos[row["Name"]] = row
            return
        fields = _fields(block)
        if kind == "NodeName":
            node = _node_of(fields)
            self.nodes[node.name] = node
        elif kind == "PartitionName":
            self.partitions[fields[kind]] = fields
        elif kind in ("SwitchName", "BlockName"):
            self.switches[fields[kind]] = fields
        elif kind == "Configuration data as of" or block.startswith(("Configuration", "Slurmctld")):
            return
        else:
            raise ValueError("is not output of Slurm that this reader knows")


def _fields(block: str) -> dict[str, str]:
    """Return the fields of an entry of ``scontrol show``; a value may contain spaces."""
    found = re.findall(r"(\S+?)=(.*?)(?=\s+[\w:/().-]+=|\s*\n|\s*$)", block)
    return dict(found)


def _node_of(fields: dict[str, str]) -> SlurmNode:
    return SlurmNode(
        name=fields["NodeName"],
        state=fields.get("State", ""),
        cpus=int(fields.get("CPUTot", 0)),
        effective_cpus=int(fields.get("CPUEfctv", fields.get("CPUTot", 0))),
        real_memory=int(fields.get("RealMemory", 0)),
        specialized_memory=int(fields.get("MemSpecLimit", 0)),
        gres=fields.get("Gres", ""),
        gres_used=fields.get("GresUsed", ""),
        partitions=fields.get("Partitions", ""),
        features=fields.get("AvailableFeatures", ""),
        reservation=fields.get("ReservationName", ""),
    )


def _job_of_line(line: str) -> SlurmJob:
    values = dict(zip(QUEUE_HEADER.split("|"), line.rstrip("\n").split("|", 14), strict=True))
    task = values["ARRAY_TASK_ID"]
    is_task = task.isdecimal()
    nodes = values["NODES"]
    return SlurmJob(
        job_id=int(values["JOBID"]),
        array_job_id=int(values["ARRAY_JOB_ID"]) if is_task or task != "N/A" else None,
        array_task_id=int(task) if is_task else None,
        array_task_string="" if is_task or task == "N/A" else task,
        job_state=values["STATE"],
        name=values["NAME"],
        partition=values["PARTITION"],
        qos=_given(values["QOS"]),
        account=_given(values["ACCOUNT"]),
        user_name=values["USER"],
        nodes=values["NODELIST"],
        node_count=int(nodes.partition("-")[0]),
        cpus=int(values["CPUS"]),
        memory_per_node=memory_bytes(values["MIN_MEMORY"]) // 2**20,
        tres_per_node=_given(values["TRES_PER_NODE"]),
        start_time=seconds(values["START_TIME"]),
    )


def _given(text: str) -> str:
    return "" if text in ("(null)", "N/A") else text
