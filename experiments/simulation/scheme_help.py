"""What the help of ``lyra-opt simulate`` says of what is found by name; nothing else loads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lyra_opt.commands.arguments import HelpFormatter
from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lyra_opt.plugins import Plugins
    from lyra_opt.simulation.scheme import Scheme

HELP_COLUMNS = 99

SCHEMES = "<schemes>"
"""Stands for what is said of them until the help is shown."""


class SchemeHelpFormatter(HelpFormatter):
    """Fills in the schemes."""

    def format_help(self) -> str:
        """Return the help."""
        shown = super().format_help()
        return shown.replace(SCHEMES, _schemes()) if SCHEMES in shown else shown


def _schemes() -> str:
    from textwrap import fill

    from experiments.simulation.scenarios import SCENARIOS
    from instances.heterogeneous.clusters import CLUSTERS
    from instances.workloads.named import WORKLOADS
    from lyra_opt.simulation.scheme import FOREVER, LEASES, ROUNDS, SCHEMES

    broken: dict[str, str] = {}

    def known(plugins: Plugins) -> list[Any]:
        """Return those that can be loaded; somebody's own may not."""
        found = []
        for name in plugins.names():
            try:
                found.append(plugins.find(name))
            except UserError as error:
                broken[name] = str(error)
        return found

    schemes = known(SCHEMES)
    summaries = {
        tenure: {scheme.name: scheme.summary for scheme in schemes if scheme.tenure == tenure}
        for tenure in (FOREVER, ROUNDS, LEASES)
    }
    workloads = {
        workload.name: workload.summary + (f"; on {workload.cluster}" if workload.cluster else "")
        for workload in known(WORKLOADS)
    }
    remark = (
        "Any scheme may be named on any cluster; one that cannot run there says why. Gangs on "
        "several machines of a network (--topology) are refused by:"
    )
    parts = {
        "schemes whose jobs keep their GPUs until they complete or are preempted": (
            summaries[FOREVER]
        ),
        "schemes that decide in rounds, on unlike GPUs": summaries[ROUNDS],
        "schemes with leases, on a network of tiers (--topology)": summaries[LEASES],
        fill(remark, HELP_COLUMNS, break_on_hyphens=False).removesuffix(":"): (
            _refusals_of_a_gang(schemes)
        ),
        "workloads": workloads,
        "clusters of unlike GPUs": _summaries(known(CLUSTERS)),
        "scenarios": _summaries(known(SCENARIOS)),
        "not to be had": broken,
    }
    return "\n\n".join(
        "\n".join((f"{title}:", *_in_columns(entries)))
        for title, entries in parts.items()
        if entries
    )


def _summaries(objects: Sequence[Any]) -> dict[str, str]:
    return {each.name: each.summary for each in objects}


def _refusals_of_a_gang(schemes: Sequence[Scheme]) -> dict[str, str]:
    """Return which schemes do not run a gang on two machines of a network, and why."""
    from lyra_opt.network.communication import ClosedForm
    from lyra_opt.network.topology import Topology
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.scheme import Options
    from lyra_opt.simulation.workload import Job, Workload

    gang = Job.rigid(id="j", submit_s=0, gpus=2, work_gpu_s=1, model="bert")
    workload = Workload(name="one", jobs=(gang,))
    topology = Topology.uniform(racks=1, machines_per_rack=2, gpus_per_machine=1)
    cluster = Cluster.of_racks(topology, ClosedForm())
    options = Options()
    return {
        scheme.name: reason
        for scheme in schemes
        if (reason := scheme.obstacle(workload, cluster, options.tenure(scheme.tenure)))
    }


def _in_columns(summaries: Mapping[str, str]) -> list[str]:
    from textwrap import wrap

    width = max(map(len, summaries))
    lines = []
    for name, summary in summaries.items():
        first, *others = wrap(summary, HELP_COLUMNS - width - 3)
        lines.append(f"  {name:<{width}} {first}")
        lines += [" " * (width + 3) + other for other in others]
    return lines
