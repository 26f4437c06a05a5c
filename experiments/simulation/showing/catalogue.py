"""Print the parts of a scenario: bundled scenarios, keys, named parts and schemes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from lyra_opt.commands.output import print_formatted, print_meanings, print_table, text_width
from lyra_opt.core.described import described, keys_text
from lyra_opt.core.documents import parse_toml
from lyra_opt.core.errors import UserError
from lyra_opt.core.fields import document_schema
from lyra_opt.core.plugins import Plugins
from lyra_opt.core.table import Column, Table
from lyra_opt.experiments.simulation.scenario.documents import bundled
from lyra_opt.experiments.simulation.scenario.keys import ScenarioTable
from lyra_opt.experiments.simulation.scenario.loading import Scenario
from lyra_opt.network.links import FREE_LINKS, LINK_SETS, LinkSet
from lyra_opt.simulation.scheme import SCHEMES

SCHEME_COLUMNS = ("scheme", "paper", "tenure", "summary")


def scenario_descriptions() -> dict[str, str]:
    """Return the description of each bundled scenario, by name."""
    return {
        name: parse_toml(entry.read_text(encoding="utf-8"), name, "a scenario")["description"]
        for name, entry in bundled().items()
    }


def print_scenarios(form: str) -> None:
    """Print the name and the description of each bundled scenario, in a format of a table."""
    described_as = scenario_descriptions()
    table = Table(
        [
            Column(key="scenario", values=list(described_as)),
            Column(key="description", values=list(described_as.values())),
        ]
    )
    if not print_formatted(form, [table]):
        print_meanings(described_as)


def print_keys(text: str | None = None) -> None:
    """Print the keys of a scenario whose name or meaning contains `text`; None prints all keys.

    Raises
    ------
    UserError
        If no key matches.
    """
    keys = list(described(ScenarioTable))
    if text is not None:
        wanted = text.casefold()
        keys = [each for each in keys if wanted in f"{each.path} {each.meaning}".casefold()]
    if not keys:
        raise UserError(f"no key of a scenario contains {text!r}; leave it out to list all keys")
    print(keys_text(keys, text_width()))


def print_schema() -> None:
    """Print the JSON schema of scenarios."""
    title = "A scenario of the simulated cluster of lyra-opt"
    schema = document_schema(ScenarioTable, title)
    # A scenario with cases takes its cluster from the cases, so `cluster` is not required.
    schema["required"].remove("cluster")
    schema["anyOf"] = [{"required": [name]} for name in ("cluster", "cases")]
    print(json.dumps(schema, indent=2))


def print_parts() -> None:
    """Print the names that a scenario can use, with an explanation of each name."""
    from lyra_opt.instances.heterogeneous.clusters import CLUSTERS, known_gpu_types
    from lyra_opt.instances.heterogeneous.node_lists import LAYOUTS as NODE_LISTS
    from lyra_opt.instances.heterogeneous.throughput_files import THROUGHPUTS
    from lyra_opt.instances.workloads.named import WORKLOADS
    from lyra_opt.instances.workloads.readers import LAYOUTS

    broken: dict[str, str] = {}
    workloads = {
        name: each.summary
        + (f" (jobs.parameters: {', '.join(each.parameters)})" if each.parameters else "")
        for name, each in _loaded(WORKLOADS, broken)
    }
    types = {
        name: f"speed {each.relative_speed:.3g}, price {each.price_per_hour:g} per hour"
        for name, each in known_gpu_types().items()
    }
    parts: dict[str, Mapping[str, str]] = {
        "jobs.workload": workloads,
        "jobs.trace, by layout": {
            name: each.form for name, each in _loaded(LAYOUTS, broken) if name
        },
        "cluster.nodes, by layout": {name: each.form for name, each in _loaded(NODE_LISTS, broken)},
        "cluster.like": {name: each.summary for name, each in _loaded(CLUSTERS, broken)},
        "cluster.gpu_type, cluster.groups[].gpu_type, cluster.loans.gpu_type": types,
        "cluster.network.links": {name: _rates(links) for name, links in LINK_SETS.items()}
        | {FREE_LINKS.name: "communication takes no time"},
        "speed.throughputs": {name: each.summary for name, each in _loaded(THROUGHPUTS, broken)},
        "cannot be loaded": broken,
    }
    for title, entries in parts.items():
        if entries:
            print(f"{title}:")
            print_meanings(entries, indent=2)


def print_schemes(scenario: Scenario | None, form: str) -> None:
    """Print all schemes; for a scenario, print whether each scheme runs in it, or why not."""
    unknown = "" if scenario is None else why_obstacles_unknown(scenario)
    rows = scheme_rows(None if unknown else scenario)
    loaded = [each for each in rows if each["tenure"] is not None]
    headings = dict.fromkeys(SCHEME_COLUMNS) | {"summary": "what it does"}
    if scenario is not None and not unknown:
        headings = {"scheme": None, "obstacle": f"in scenario {scenario.table.name}"}
    table = Table(
        [
            Column(
                key=key,
                values=[each[key] for each in loaded],
                heading=heading,
                texts=[each[key] or "runs" for each in loaded],
            )
            for key, heading in headings.items()
        ]
    )
    if print_formatted(form, [table]):
        return
    print_table(table, None)
    for each in rows[len(loaded) :]:
        print(f"{each['scheme']}: {each['summary']}")
    if unknown:
        print(unknown)


def why_obstacles_unknown(scenario: Scenario) -> str:
    """Return a sentence if the jobs that decide which schemes run are not given; "" if they are."""
    jobs = scenario.table.jobs
    if jobs.workload or jobs.trace or scenario.given.workload is not None:
        return ""
    return (
        f"Which schemes run depends on the jobs, and scenario {scenario.table.name} does not name "
        "any. Give a trace with --jobs FILE (in Python jobs=...)."
    )


def scheme_rows(scenario: Scenario | None) -> list[dict[str, Any]]:
    """Return a row for each scheme: `SCHEME_COLUMNS`, and its ``obstacle`` in a scenario, or None.

    The last rows are schemes that cannot be loaded; their summary is the reason.
    """
    broken: dict[str, str] = {}
    schemes = dict(_loaded(SCHEMES, broken))
    refusals = {} if scenario is None else _refusals(scenario, list(schemes))
    cells = [(each.name, each.paper, each.tenure, each.summary) for each in schemes.values()]
    cells += [(name, None, None, reason) for name, reason in broken.items()]
    columns = (*SCHEME_COLUMNS, "obstacle")
    return [dict(zip(columns, (*each, refusals.get(each[0])), strict=True)) for each in cells]


def _refusals(scenario: Scenario, names: list[str]) -> dict[str, str | None]:
    from lyra_opt.experiments.simulation.scenario.building import make_setup
    from lyra_opt.experiments.simulation.scenario.schemes import make_schemes

    setup = make_setup(scenario, [], scenario.table.seeds[0])
    return {
        scheme.name: scheme.refusal(
            setup.workload, setup.cluster, setup.options.tenure(scheme.tenure)
        )
        for scheme in make_schemes(scenario, names)
    }


def _loaded(plugins: Plugins, broken: dict[str, str]) -> Iterator[tuple[str, Any]]:
    """Yield name and object of each plug-in that loads; note the errors of others in `broken`."""
    for name in plugins.names():
        try:
            yield name, plugins.find(name)
        except UserError as error:
            broken[name] = str(error)


def _rates(links: LinkSet) -> str:
    rates = ", ".join(
        f"{link.bandwidth_gb_per_s:g}" for link in (links.machine, links.rack, links.network)
    )
    return f"{rates} GB/s within a machine, within a rack, between racks"
