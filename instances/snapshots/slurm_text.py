"""The text of ``scontrol show`` and ``sacctmgr show qos``, as the records of the JSON output.

Source: the functions that print it in SchedMD/slurm, and the output of Slurm 22.05.8.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lyra_opt.core.errors import show_value
from lyra_opt.instances.snapshots.slurm_names import hosts, seconds, words
from lyra_opt.instances.snapshots.slurm_records import (
    AllocatedNodes,
    Allocation,
    JobResources,
    NodeCpus,
    NodeMemory,
    PartitionPriority,
    PreemptedQos,
    Records,
    SlurmJob,
    SlurmNode,
    SlurmPartition,
    SlurmQos,
    SlurmSwitch,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

STARTS = ("JobId=", "NodeName=", "PartitionName=", "SwitchName=", "BlockName=", "Name|")
"""How the texts begin."""

UNSET = ("(null)", "N/A", "None", "Unknown", "")

_FREE_TEXT = re.compile(
    r"\b(JobName|Command|SubmitLine|WorkDir|Std\w+|\w*Comment|Extra|Reason|OS)=.*"
)
"""Fields whose values users choose; they end their line and could look like other fields."""

_FIELD = re.compile(r"(\S+?)=(\S*)")


def records_of_text(text: str) -> Records:
    """Return the records in a text.

    Raises
    ------
    ValueError
        If an entry is damaged, or the text is not output of Slurm.
    """
    if text.startswith("Name|"):
        return Records(qos=_qos(text))
    records = Records()
    for block in re.split(r"\n(?=\S)", text.strip()):
        fields = _fields(block)
        match block.partition("=")[0]:
            case "JobId":
                records.jobs.append(_job(block, fields))
            case "NodeName":
                records.nodes.append(_node(fields))
            case "PartitionName":
                records.partitions.append(_partition(fields))
            case "SwitchName" | "BlockName" as kind:
                depth = "block" if kind == "BlockName" else fields.get("Level", "0")
                switch = SlurmSwitch(fields[kind], depth, hosts(fields.get("Nodes", "")))
                records.switches.append(switch)
            case _:
                known = "jobs, nodes, partitions or topology"
                line = show_value(block.partition("\n")[0])
                raise ValueError(f"{line} does not begin an entry of scontrol show for {known}")
    return records


def _fields(block: str) -> dict[str, str]:
    """Return the fields of an entry of ``scontrol show`` that are set, without free text."""
    lines = [_FREE_TEXT.sub("", line) for line in block.splitlines()]
    return {
        key: value for line in lines for key, value in _FIELD.findall(line) if value not in UNSET
    }


def _count(fields: Mapping[str, str], key: str) -> int:
    """Return a number, or the lower end of a range such as ``2-4``; 0 if it is not set."""
    text = fields.get(key, "0")
    match = re.fullmatch(r"(\d+)(K?)(-\S+)?", text)
    if match is None:
        raise ValueError(f"{key} is {show_value(text)}: must be a number")
    return int(match[1]) * (1024 if match[2] else 1)


def _node(fields: Mapping[str, str]) -> SlurmNode:
    try:
        return SlurmNode(
            name=fields["NodeName"],
            state=fields["State"],
            cpus=_count(fields, "CPUTot"),
            effective_cpus=_count(fields, "CPUEfctv"),
            real_memory=_count(fields, "RealMemory"),
            specialized_memory=_count(fields, "MemSpecLimit"),
            gres=fields.get("Gres", ""),
            gres_used=fields.get("GresUsed", ""),
            partitions=fields.get("Partitions", ""),
            features=fields.get("AvailableFeatures", ""),
        )
    except KeyError as error:
        name = fields.get("NodeName", "")
        raise ValueError(f"node {name} has no {error.args[0]}: is the text cut off?") from None


def _partition(fields: Mapping[str, str]) -> SlurmPartition:
    return SlurmPartition(
        fields["PartitionName"],
        PartitionPriority(_count(fields, "PriorityTier")),
        fields.get("PreemptMode", ""),
        fields.get("OverSubscribe") == "EXCLUSIVE",
    )


def _job(block: str, fields: Mapping[str, str]) -> SlurmJob:
    if "JobState" not in fields:
        rule = "has no JobState: is the text cut off, or from --oneliner?"
        raise ValueError(f"job {fields.get('JobId', '')} {rule}")
    task = fields.get("ArrayTaskId", "")
    allocations: list[Allocation] = []
    generic: list[str | None] = []
    for line in block.splitlines():
        if not (part := _fields(line)) or not line.lstrip().startswith("Nodes="):
            continue
        cpus = len(hosts(f"[{part['CPU_IDs']}]")) if "CPU_IDs" in part else 0
        for name in hosts(part["Nodes"]):
            memory = NodeMemory(_count(part, "Mem"))
            allocations.append(Allocation(name, NodeCpus(cpus), memory))
            generic.append(part.get("GRES", ""))
    if "NodeList" in fields and not allocations and fields["JobState"] == "RUNNING":
        rule = "does not say what it holds on each node; collect scontrol --details show job"
        raise ValueError(f"job {fields['JobId']} {rule}")
    return SlurmJob(
        job_id=_count(fields, "JobId"),
        job_state=fields["JobState"],
        array_job_id=_count(fields, "ArrayJobId"),
        array_task_id=int(task) if task.isdecimal() else None,
        array_task_string="" if task.isdecimal() else task,
        het_job_id=_count(fields, "HetJobId"),
        partition=fields.get("Partition", ""),
        qos=fields.get("QOS", ""),
        account=fields.get("Account", ""),
        user_name=fields.get("UserId", "").partition("(")[0],
        nodes=[each.name for each in allocations] or fields.get("NodeList", ""),
        node_count=_count(fields, "NumNodes"),
        max_nodes=1 if fields.get("NumNodes") == "1-1" else 0,
        cpus=_count(fields, "NumCPUs"),
        tasks=_count(fields, "NumTasks"),
        gres_detail=generic,
        tres_alloc_str=fields.get("AllocTRES", fields.get("TRES", "")),
        tres_req_str=fields.get("ReqTRES", fields.get("TRES", "")),
        tres_per_node=fields.get("TresPerNode", ""),
        tres_per_job=fields.get("TresPerJob", ""),
        tres_per_task=fields.get("TresPerTask", ""),
        features=fields.get("Features", ""),
        excluded_nodes=fields.get("ExcNodeList", ""),
        required_nodes=fields.get("ReqNodeList", ""),
        exclusive=fields.get("Exclusive", "NODE" if fields.get("OverSubscribe") == "NO" else ""),
        requeue=fields.get("Requeue") != "0",
        batch_flag=fields.get("BatchFlag") != "0",
        start_time=seconds(fields.get("StartTime", "")),
        submit_time=seconds(fields.get("SubmitTime", "")),
        last_sched_evaluation=seconds(fields.get("LastSchedEval", "")),
        job_resources=JobResources(AllocatedNodes(allocations)),
    )


def _qos(text: str) -> list[SlurmQos]:
    header, *lines = (line.split("|") for line in text.splitlines() if line)
    if "Preempt" not in header:
        raise ValueError("the list of QOS has no column Preempt")
    rows = [dict(zip(header, line, strict=False)) for line in lines]
    return [SlurmQos(row["Name"], PreemptedQos(words(row.get("Preempt", "")))) for row in rows]
