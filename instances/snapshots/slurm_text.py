"""The text of ``scontrol show`` and ``sacctmgr show qos``, as the records of the JSON output.

Source: the functions that print it in SchedMD/slurm, and the output of Slurm 22.05.8.
"""

import re
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from lyra_opt.core.errors import show_value
from lyra_opt.instances.snapshots.json_errors import mistyped
from lyra_opt.instances.snapshots.slurm_names import hosts
from lyra_opt.instances.snapshots.slurm_records import (
    Records,
    SlurmJob,
    SlurmNode,
    SlurmPartition,
    SlurmQos,
    SlurmSwitch,
    decoded,
)

STARTS = ("JobId=", "NodeName=", "PartitionName=", "SwitchName=", "BlockName=", "Name|")
"""How the texts begin."""

UNSET = ("(null)", "N/A", "None", "Unknown", "")

_FREE_TEXT = re.compile(
    r"\b(JobName|Command|SubmitLine|WorkDir|Std\w+|\w*Comment|Extra|Reason|OS)=.*"
)
"""Fields whose values users choose; they end their line and could look like other fields."""

_FIELD = re.compile(r"(\S+?)=(\S*)")


RecordT = TypeVar("RecordT", bound=msgspec.Struct)


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
                records.nodes.append(_record(SlurmNode, fields))
            case "PartitionName":
                priority = {"tier": fields.get("PriorityTier")}
                is_exclusive = fields.get("OverSubscribe") == "EXCLUSIVE"
                records.partitions.append(
                    _record(SlurmPartition, fields, priority=priority, is_exclusive=is_exclusive)
                )
            case "SwitchName" | "BlockName" as kind:
                depth = "block" if kind == "BlockName" else fields.get("Level", "0")
                more = {"name": fields.get(kind), "depth": depth, "nodes": fields.get("Nodes")}
                records.switches.append(_record(SlurmSwitch, fields, **more))
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


@cache
def _names(kind: type[msgspec.Struct]) -> list[tuple[str, str, bool]]:
    """Return name, name in the text, and whether it is required, for the fields that have both."""
    return [
        (field.name, field.type.__metadata__[0], field.required)
        for field in msgspec.structs.fields(kind)
        if hasattr(field.type, "__metadata__")
    ]


def _record(kind: type[RecordT], fields: Mapping[str, str], **more: Any) -> RecordT:
    """Return an entry as a record; `more` has fields whose content differs from the text's."""
    title = "=".join(next(iter(fields.items()), ("", "")))
    found: dict[str, Any] = {}
    for name, text, is_required in _names(kind):
        if text in fields:
            found[name] = fields[text]
        elif is_required:
            raise ValueError(f"{title} has no {text}: is the text cut off, or from --oneliner?")
    try:
        return msgspec.convert(found | more, kind, strict=False, dec_hook=decoded)
    except msgspec.ValidationError as error:
        raise ValueError(f"{title}: {mistyped(error)}") from None


def _job(block: str, fields: dict[str, str]) -> SlurmJob:
    allocations: list[dict[str, Any]] = []
    generic: list[str] = []
    for line in block.splitlines():
        if not (part := _fields(line)) or not line.lstrip().startswith("Nodes="):
            continue
        cpus = len(hosts(f"[{part['CPU_IDs']}]")) if "CPU_IDs" in part else 0
        for name in hosts(part["Nodes"]):
            memory = {"allocated": part.get("Mem")}
            allocations.append({"name": name, "cpus": {"count": cpus}, "memory": memory})
            generic.append(part.get("GRES", ""))
    if "NodeList" in fields and not allocations and fields.get("JobState") == "RUNNING":
        rule = "does not say what it holds on each node; collect scontrol --details show job"
        raise ValueError(f"job {fields['JobId']} {rule}")
    tres = fields.get("TRES", "")
    defaults = {"AllocTRES": tres, "ReqTRES": tres}
    if fields.get("OverSubscribe") == "NO":
        defaults["Exclusive"] = "NODE"
    more = {"nodes": [each["name"] for each in allocations]} if allocations else {}
    return _record(
        SlurmJob,
        {"JobId": "", **defaults, **fields},
        user_name=fields.get("UserId", "").partition("(")[0],
        name=named[1] if (named := re.search(r"\bJobName=(.*)", block)) else "",
        max_nodes=1 if fields.get("NumNodes") == "1-1" else 0,
        gres_detail=generic,
        job_resources={"nodes": {"allocation": allocations}},
        **more,
    )


def _qos(text: str) -> list[SlurmQos]:
    header, *lines = (line.split("|") for line in text.splitlines() if line)
    if "Preempt" not in header:
        raise ValueError("the list of QOS has no column Preempt")
    rows = [dict(zip(header, line, strict=False)) for line in lines]
    return [
        _record(SlurmQos, {}, name=row["Name"], preempt={"list": row.get("Preempt")})
        for row in rows
    ]
