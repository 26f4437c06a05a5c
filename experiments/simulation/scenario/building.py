"""Build the setup of a scenario: cluster, jobs and loans."""

import re
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from lyra_opt.core.documents import unknown_key
from lyra_opt.core.errors import FieldError, InputError, UserError, counted, in_file
from lyra_opt.core.rules import located
from lyra_opt.experiments.intervals import Resampling
from lyra_opt.experiments.simulation.scenario.keys import BootstrapTable, ClusterTable, NetworkTable
from lyra_opt.experiments.simulation.scenario.loading import Scenario
from lyra_opt.experiments.simulation.scenario.schemes import (
    abilities_of,
    common_abilities,
    find_in,
    located_parameter,
)
from lyra_opt.experiments.simulation.scenario.setup import (
    Setup,
    make_loaning,
    proportional_inference_servers,
)
from lyra_opt.experiments.simulation.scenario.tenants import with_quotas
from lyra_opt.instances.heterogeneous.clusters import cluster_of_servers, find_cluster
from lyra_opt.instances.heterogeneous.node_lists import read_nodes
from lyra_opt.instances.heterogeneous.throughput_files import load_throughputs
from lyra_opt.instances.heterogeneous.throughputs import ThroughputTable
from lyra_opt.instances.heterogeneous.workload_throughputs import with_throughputs
from lyra_opt.instances.network.jobs import assigned_models as with_network_models
from lyra_opt.instances.network.jobs import shares_of
from lyra_opt.instances.traces import locate
from lyra_opt.instances.workloads.lyra_like import bootstrapped, days_of, usual_block_days
from lyra_opt.instances.workloads.named import find_workload
from lyra_opt.instances.workloads.readers import LAYOUTS, read_workload
from lyra_opt.instances.workloads.transform import (
    JobAssumptions,
    in_reference_time,
    limited,
    on_whole_gpus,
    rescaled,
    sampled,
    window,
    with_assumptions,
    without_oversized,
)
from lyra_opt.network.links import LinkSet, find_link_set
from lyra_opt.simulation.cluster import INFERENCE_GPU, TRAINING_GPU, Cluster, GpuType, Server
from lyra_opt.simulation.communication import ClosedForm, CommunicationModel, read_slowdowns
from lyra_opt.simulation.scheme import Options, Scheme
from lyra_opt.simulation.speed import Speed
from lyra_opt.simulation.topology import DEFAULT_LINKS, Rack, Topology, read_topology
from lyra_opt.simulation.workload import Job, Workload

_ROW_ERROR = re.compile(r"row (?!1:)|\[[0-9]")
DEFAULT_THROUGHPUTS = "gavel"
"""The table of throughputs for heterogeneous own GPUs if the scenario names none."""


def traces_of_workload(scenario: Scenario) -> list[Path]:
    """Return the existing traces that a scenario's generated workload reads."""
    name = scenario.table.jobs.workload
    if name is None:
        return []
    reads = find_in(find_workload, name, "jobs.workload", scenario).reads
    return [path for path in map(locate, reads) if path.is_file()]


def make_setup(scenario: Scenario, schemes: Sequence[Scheme], seed: int) -> Setup:
    """Build the inputs of a simulation (jobs, cluster, loans, options) from a scenario and a seed.

    ``schemes`` are the schemes under which all jobs must be able to run.

    Raises
    ------
    UserError
        If an object that the scenario names does not exist or is invalid, or a job can never run.
    """
    table = scenario.table
    with in_file(scenario.source):
        cluster = make_cluster(scenario)
        options = Options(
            seed=seed,
            mixed_efficiency=table.speed.mixed_efficiency,
            scaling_interval_s=table.tenure.scaling_interval_s,
            forever=table.tenure.forever,
            leases=table.tenure.leases,
            rounds=table.tenure.rounds,
            epochs=table.tenure.epochs,
        )
        workload, assumptions, resampling = _jobs(scenario, cluster, seed)
    source, drop = table.jobs.trace or workload.name, table.jobs.oversized == "drop"
    workload, dropped = runnable(workload, cluster, schemes, options, source=source, drop=drop)
    if table.cluster.tenants is not None:
        # Jobs that no cluster of this size could run have no influence on the quotas.
        with in_file(scenario.source):
            cluster = with_quotas(cluster, table.cluster.tenants, workload)
        workload, more = runnable(workload, cluster, schemes, options, source=source, drop=drop)
        dropped += more
    # A job without a speed is reported before the simulation, not after hours of running.
    Speed(cluster).require_runs(workload)
    if assumptions is not None:
        # Oversized jobs are already dropped, so stated percentages hold for the jobs that run.
        workload = with_assumptions(workload, assumptions, seed=seed)
    loans = table.cluster.loans
    loaning = None
    if loans is not None:
        loaning = make_loaning(
            workload,
            cluster,
            seed=seed,
            forecaster=loans.forecaster,
            headroom=loans.headroom,
            day_s=loans.day_s,
            usage=None if loans.usage is None else scenario.path_to_read(loans.usage),
        )
    setup = Setup(
        workload=workload,
        scenario=table.name,
        cluster=cluster,
        options=options,
        dropped=dropped,
        loaning=loaning,
        resampling=resampling,
    )
    if table.bounds:
        try:
            common_abilities({each.name: abilities_of(each, setup) for each in schemes})
        except UserError as error:
            raise InputError(scenario.source, f"bounds: {error}") from None
    return setup


def make_cluster(scenario: Scenario) -> Cluster:
    """Return the cluster of a scenario; `UserError` if a part that it names does not exist."""
    table = scenario.table.cluster
    cluster = scenario.given.cluster or _own_servers(scenario, table)
    if table.name is not None:
        cluster = replace(cluster, name=table.name)
    loans = table.loans
    if loans is None or cluster.inference_servers:  # a given cluster object has its own loans
        return cluster
    servers = loans.servers
    if servers is None:
        servers = proportional_inference_servers(cluster.gpus)
    return cluster.with_lent(
        servers,
        gpus_per_server=loans.gpus_per_server,
        gpu_type=_gpu_type(scenario, loans.gpu_type, "cluster.loans.gpu_type", INFERENCE_GPU),
    )


def _own_servers(scenario: Scenario, table: ClusterTable) -> Cluster:
    network = table.network
    if network is not None and network.topology is not None:
        return _on_topology(scenario, network.topology)
    if table.like is not None:
        cluster: Cluster = find_in(find_cluster, table.like, "cluster.like", scenario)
    elif table.groups:
        of_group = [
            _gpu_type(scenario, each.gpu_type, f"cluster.groups[{number}].gpu_type")
            for number, each in enumerate(table.groups)
        ]
        types = {gpu_type.name: gpu_type for gpu_type in of_group}
        servers = []
        for number, group in enumerate(table.groups):
            name = of_group[number].name
            mark = name if len(types) == len(table.groups) else f"{name}-{number}"
            servers += [
                Server(id=f"{mark}-{index}", gpus={name: group.gpus_per_server})
                for index in range(group.servers)
            ]
        cluster = cluster_of_servers(servers, list(types.values()))
    elif table.nodes is not None:
        cluster = read_nodes(scenario.path_to_read(table.nodes), scenario.table.gpu_types)
    else:
        assert table.servers is not None, "the scenario says which servers there are"
        cluster = Cluster.of_servers(
            table.servers,
            gpus_per_server=table.gpus_per_server,
            servers_per_rack=table.servers_per_rack,
            gpu=_gpu_type(scenario, table.gpu_type, "cluster.gpu_type", TRAINING_GPU),
        )
    return cluster if network is None else _with_network(scenario, cluster, table)


def _gpu_type(
    scenario: Scenario, name: str | None, path: str, default: GpuType = TRAINING_GPU
) -> GpuType:
    if name is None:
        return default
    known = scenario.table.gpu_types
    if name not in known:
        alike = [found for found in known if found.casefold() == name.casefold()]
        if len(alike) == 1:
            return known[alike[0]]
        rule = f"{unknown_key(name, list(known), noun='type')}; add your own to gpu_types"
        raise FieldError(path, name, rule)
    return known[name]


def _on_topology(scenario: Scenario, file: str) -> Cluster:
    """Return the cluster of a topology file, with the file's links or the scenario's links."""
    table = scenario.table.cluster
    assert table.network is not None, "the topology is that of a network"
    named = table.network.links
    path = "cluster.network.links"
    links = None if named is None else find_in(find_link_set, named, path, scenario)
    topology, links = read_topology(scenario.path_to_read(file), network=links)
    communication, called, assumption = _communication(scenario, table.network, links)
    gpu_types = (_gpu_type(scenario, table.gpu_type, "cluster.gpu_type"),)
    return Cluster.of_racks(
        topology,
        communication,
        network=called,
        assumptions=(assumption,),
        **({} if table.gpu_type is None else {"gpu_types": gpu_types}),
    )


def _with_network(scenario: Scenario, cluster: Cluster, table: ClusterTable) -> Cluster:
    """Return a cluster with its servers in racks and a network between them."""
    assert table.network is not None
    assert table.servers_per_rack is not None
    named = table.network.links or DEFAULT_LINKS
    links = find_in(find_link_set, named, "cluster.network.links", scenario)
    communication, called, assumption = _communication(scenario, table.network, links)
    sizes = [sum(server.gpus.values()) for server in cluster.servers]
    racks = []
    for start in range(0, len(sizes), table.servers_per_rack):
        of_rack = sizes[start : start + table.servers_per_rack]
        if len(set(of_rack)) > 1:
            rule = "must not put servers with different numbers of GPUs into one rack"
            raise FieldError("cluster.servers_per_rack", table.servers_per_rack, rule)
        racks.append(Rack(machines=len(of_rack), gpus_per_machine=of_rack[0]))
    return replace(
        cluster,
        topology=Topology(name=table.name or cluster.name, racks=tuple(racks)),
        communication=communication,
        network=called,
        assumptions=(*cluster.assumptions, assumption),
    )


def _communication(
    scenario: Scenario, table: NetworkTable, links: LinkSet
) -> tuple[CommunicationModel, str, str]:
    """Return the communication model, the name of the links, and a sentence on the assumptions."""
    if table.slowdowns is not None:
        return (
            read_slowdowns(scenario.path_to_read(table.slowdowns)),
            "measured slowdowns",
            "Slowdowns by model, gang and tier are read from a file.",
        )
    latency_s = {
        name.removesuffix("_latency_s"): value
        for name, value in table.latency_s.items()
        if value is not None
    }
    links = links.with_latency(latency_s)
    overlapped = (
        f"; it can overlap with {100 * table.overlap:g} % of an iteration's computing"
        if table.overlap
        else ", without any overlap with computing"
    )
    return (
        ClosedForm(links=links, overlap=table.overlap),
        links.name,
        "Assumed instead of ASTRA-sim: gradients are reduced layer by layer in a ring over the "
        f"slowest tier that a gang spans{overlapped}; compute times and bytes of the models are "
        "the sums of the profiles in Dally's public simulator. These look odd and give only orders "
        "of magnitude.",
    )


def _jobs(
    scenario: Scenario, cluster: Cluster, seed: int
) -> tuple[Workload, JobAssumptions | None, Resampling | None]:
    """Return the submitted jobs, assumptions still to be applied to them, and their resampling."""
    table = scenario.table
    jobs, given = table.jobs, scenario.given
    assumptions = jobs.assumptions
    if jobs.workload is not None:
        named = find_in(find_workload, jobs.workload, "jobs.workload", scenario)
        parameters = dict(jobs.parameters)
        for name, value in parameters.items():
            if name not in named.parameters:
                rule = unknown_key(name, named.parameters)
                raise FieldError(f"jobs.parameters.{name}", value, rule)
        if "assumptions" in named.asks_for:
            parameters["assumptions"], assumptions = assumptions, None
        if "table" in named.asks_for and table.speed.throughputs is not None:
            parameters["table"] = _throughputs(scenario, table.speed.throughputs)
        with located("jobs.parameters"):
            workload = named.make(cluster, seed, **parameters)
    elif given.workload is not None and not given.is_trace:
        workload = given.workload
    elif (workload := _trace(scenario)) is not None:
        if jobs.slices == "whole":
            workload = on_whole_gpus(workload)
        with located("jobs"):
            workload = window(workload, jobs.first_day or 1, jobs.days)
        if jobs.count is not None:
            workload = limited(workload, jobs.count)
        if jobs.sample is not None:
            if jobs.oversized == "drop":
                workload, _ = without_oversized(workload, cluster.gpus)
            workload = sampled(workload, jobs.sample)
    else:
        raise FieldError(
            "jobs",
            {},
            "must have a trace or a workload. Give a trace with --jobs FILE (in Python jobs=...).",
        )
    measured_on = _measured_on(scenario, workload, cluster)
    is_certain = workload.measured_on is None or all(
        cluster.type_of[name].relative_speed == 1 for name in cluster.own_gpus
    )
    if jobs.workload is None and (given.workload is None or given.is_trace):
        workload = _with_models(scenario, workload, cluster, seed, measured_on)
    if jobs.load is not None:
        with located("jobs"):
            workload = rescaled(workload, load=jobs.load, gpus=cluster.gpus)
    resampling = None
    if jobs.bootstrap is not None:
        workload, resampling = _resampled(workload, jobs.bootstrap, seed)
    workload = in_reference_time(workload, measured_on, is_certain=is_certain)
    return workload, assumptions, resampling


def _resampled(
    workload: Workload, bootstrap: BootstrapTable, seed: int
) -> tuple[Workload, Resampling]:
    """Return a draw of the days of a workload, and how it was drawn."""
    jobs = [(job.submit_s, job.work_worker_s, job.min_gpus) for job in workload.jobs]
    source_days = days_of(workload)
    resampling = Resampling(
        days=bootstrap.days,
        block_days=bootstrap.block_days or usual_block_days(source_days),
        source_days=source_days,
        source=zlib.crc32(repr(jobs).encode()),
    )
    draw = seed if bootstrap.draw is None else bootstrap.draw
    with located("jobs.bootstrap"):
        drawn = bootstrapped(
            workload, days=bootstrap.days, block_days=resampling.block_days, seed=draw
        )
    return drawn, resampling


def _trace(scenario: Scenario) -> Workload | None:
    jobs = scenario.table.jobs
    if jobs.trace is None:
        return scenario.given.workload
    if jobs.layout is not None:
        find_in(LAYOUTS.find, jobs.layout, "jobs.layout", scenario)
    drops = jobs.bad_rows == "drop"
    path = scenario.path_to_read(jobs.trace)
    try:
        return read_workload(path, vc=jobs.vc, layout=jobs.layout, drops_bad_rows=drops)
    except InputError as error:
        if drops or not _ROW_ERROR.match(error.reason):
            raise
        remark = "--set jobs.bad_rows=drop leaves out invalid rows"
        raise InputError(error.source, f"{error.reason}; {remark}") from None


def _measured_on(
    scenario: Scenario, workload: Workload, cluster: Cluster
) -> Callable[[Job], GpuType | None]:
    """Return a function from a job to the GPU type on which its running time was measured."""
    named = scenario.table.jobs.measured_on or workload.measured_on
    if named:
        gpu_type = _gpu_type(scenario, named, "jobs.measured_on")
        return lambda job: gpu_type  # noqa: ARG005
    if named is None:
        return lambda job: None  # noqa: ARG005
    types = (*scenario.table.gpu_types.values(), *cluster.gpu_types)
    known = {found.name.casefold(): found for found in types}
    return lambda job: known.get(job.gpu_types[0].casefold()) if len(job.gpu_types) == 1 else None


def _with_models(
    scenario: Scenario,
    trace: Workload,
    cluster: Cluster,
    seed: int,
    measured_on: Callable[[Job], GpuType | None],
) -> Workload:
    """Assign a machine learning model to each job of a trace if job speeds depend on the model."""
    throughputs = scenario.table.speed.throughputs
    own_types = [cluster.type_of[name] for name in cluster.own_gpus]
    if throughputs is None and cluster.communication is None and len(own_types) > 1:
        throughputs = DEFAULT_THROUGHPUTS
    if throughputs is not None:
        table = _throughputs(scenario, throughputs)
        trace = with_throughputs(trace, table, own_types, seed=seed, measured_on=measured_on)
    if cluster.communication is not None:
        models = cluster.communication.models()
        trace = with_network_models(trace, seed=seed, shares=shares_of(models))
    return trace


def _throughputs(scenario: Scenario, name: str) -> ThroughputTable:
    return load_throughputs(located_parameter(name, scenario), gpu_types=scenario.table.gpu_types)


def runnable(
    workload: Workload,
    cluster: Cluster,
    schemes: Sequence[Scheme],
    options: Options,
    *,
    source: str,
    drop: bool,
) -> tuple[Workload, int]:
    """Return the jobs that can run under all schemes, and the number of all other jobs.

    ``source`` names the jobs in error messages; ``drop`` says whether to leave out jobs that cannot
    run.

    Raises
    ------
    UserError
        If a job cannot run and must not be left out, or no job can run.
    """
    speed = Speed(cluster)

    def obstacle_of(job: Job) -> str | None:
        if (reason := speed.obstacle(job)) is not None:
            return reason
        alone = replace(workload, jobs=(job,))
        for scheme in schemes:
            reason = scheme.refusal(alone, cluster, options.tenure(scheme.tenure))
            if reason is not None:
                return f"scheme {scheme.name}: {reason}"
        return None

    if all(speed.obstacle(job) is None for job in workload.jobs) and all(
        scheme.refusal(workload, cluster, options.tenure(scheme.tenure)) is None
        for scheme in schemes
    ):
        return workload, 0
    found = [(job, obstacle_of(job)) for job in workload.jobs]
    kept = tuple(job for job, reason in found if reason is None)
    dropped = len(found) - len(kept)
    if not dropped:
        return workload, 0
    worst = max((each for each in found if each[1] is not None), key=lambda each: each[0].min_gpus)
    is_divided = worst[0].is_slice and speed.obstacle(worst[0]) is None
    whole = '; jobs.slices = "whole" gives such jobs of a trace whole GPUs' * is_divided
    if not kept:
        raise InputError(source, f"no job can run: {worst[1]}{whole}")
    if not drop:
        others = f" ({dropped:,} jobs cannot run)" if dropped > 1 else ""
        remark = 'set jobs.oversized to "drop" to leave out jobs that cannot run'
        raise InputError(source, f"{worst[1]}{others}{whole or f'; {remark}'}")
    sentence = f"Left out: {counted(dropped, 'job')} that can never run; the largest: {worst[1]}."
    return replace(workload, jobs=kept, assumptions=(*workload.assumptions, sentence)), dropped
