"""What a scenario can be made of: scenarios that come along, keys, parts and schemes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lyra_opt.commands.output import print_meanings, print_table, text_width
from lyra_opt.core.described import keys_text
from lyra_opt.core.documents import parse_toml
from lyra_opt.core.errors import UserError
from lyra_opt.core.fields import document_schema
from lyra_opt.experiments.simulation.scenario.documents import bundled
from lyra_opt.experiments.simulation.scenario.keys import ScenarioTable
from lyra_opt.simulation.scheme import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lyra_opt.core.plugins import Plugins
    from lyra_opt.experiments.simulation.scenario.loading import Scenario
    from lyra_opt.network.links import LinkSet


def print_scenarios() -> None:
    """Print the names of bundled scenarios, and what they are for."""
    described_as = {
        name: parse_toml(entry.read_text(encoding="utf-8"), name, "a scenario")["description"]
        for name, entry in bundled().items()
    }
    print_meanings(described_as)


def print_keys() -> None:
    """Print every key of a scenario."""
    print(keys_text(ScenarioTable, text_width()))


def print_schema() -> None:
    """Print the JSON schema of scenarios."""
    title = "A scenario of the simulated cluster of lyra-opt"
    schema = document_schema(ScenarioTable, title)
    # Cases bring their clusters along.
    schema["required"].remove("cluster")
    schema["anyOf"] = [{"required": [name]} for name in ("cluster", "cases")]
    print(json.dumps(schema, indent=2))


def print_parts() -> None:
    """Print what can be named in a scenario, and what each is."""
    from lyra_opt.instances.heterogeneous.clusters import CLUSTERS, known_gpu_types
    from lyra_opt.instances.heterogeneous.throughput_files import THROUGHPUTS
    from lyra_opt.instances.workloads.named import WORKLOADS
    from lyra_opt.instances.workloads.readers import LAYOUTS
    from lyra_opt.network.links import FREE_LINKS, LINK_SETS

    broken: dict[str, str] = {}
    workloads = {
        name: each.summary + _parameters(each.parameters)
        for name, each in _known(WORKLOADS, broken)
    }
    types = {
        name: f"speed {each.relative_speed:.3g}, {each.price_per_hour:g} an hour"
        for name, each in known_gpu_types().items()
    }
    parts: dict[str, Mapping[str, str]] = {
        "jobs.workload": workloads,
        "jobs.trace, by layout": {
            name: each.form for name, each in _known(LAYOUTS, broken) if name
        },
        "cluster.like": {name: each.summary for name, each in _known(CLUSTERS, broken)},
        "cluster.gpu_type, cluster.groups[].gpu_type, cluster.loans.gpu_type": types,
        "cluster.network.links": {name: _rates(links) for name, links in LINK_SETS.items()}
        | {FREE_LINKS.name: "communication takes no time"},
        "speed.throughputs": {name: each.summary for name, each in _known(THROUGHPUTS, broken)},
        "not to be had": broken,
    }
    for title, entries in parts.items():
        if entries:
            print(f"{title}:")
            print_meanings(entries, indent=2)


def print_schemes(scenario: Scenario | None) -> None:
    """Print all schemes and, for a scenario, whether they run in it or why not."""
    broken: dict[str, str] = {}
    schemes = dict(_known(SCHEMES, broken))
    if scenario is None:
        rows = [[each.name, each.paper, each.tenure, each.summary] for each in schemes.values()]
        print_table(["scheme", "paper", "tenure", "what it does"], rows, right=4)
    else:
        refusals = _refusals(scenario, list(schemes))
        rows = [[name, refusals[name] or "runs"] for name in schemes]
        print_table(["scheme", f"in scenario {scenario.table.name}"], rows, right=2)
    for name, reason in broken.items():
        print(f"{name}: {reason}")


def _refusals(scenario: Scenario, names: list[str]) -> dict[str, str | None]:
    from dataclasses import replace

    from lyra_opt.experiments.simulation.scenario.building import make_setup
    from lyra_opt.experiments.simulation.scenario.schemes import make_schemes

    schemes = make_schemes(scenario, names)
    setup = make_setup(scenario, [], scenario.table.seeds[0])
    return {
        scheme.name: scheme.obstacle(
            setup.workload, setup.cluster, replace(setup.options).tenure(scheme.tenure)
        )
        for scheme in schemes
    }


def _known(plugins: Plugins, broken: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield those that can be loaded by name; somebody's own may not, and says why."""
    for name in plugins.names():
        try:
            yield name, plugins.find(name)
        except UserError as error:
            broken[name] = str(error)


def _rates(links: LinkSet) -> str:
    rates = ", ".join(
        f"{link.bandwidth_gb_per_s:g}" for link in (links.machine, links.rack, links.network)
    )
    return f"{rates} GB/s in a machine, in a rack, between racks"


def _parameters(names: tuple[str, ...]) -> str:
    return f" (jobs.parameters: {', '.join(names)})" if names else ""
