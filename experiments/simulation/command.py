"""``lyra-opt simulate``: replay a workload on a simulated cluster under one or more schemes."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from experiments.simulation.network_arguments import given_leases
from experiments.simulation.network_command import (
    DEFAULT_NETWORK_SCHEME,
    DEFAULT_NETWORK_WORKLOAD,
    add_network_arguments,
    given_schemes,
    make_network_setup,
    require_no_network,
)
from experiments.simulation.rounds_command import (
    DEFAULT_ROUND_SCHEME,
    GAVEL_LIKE,
    LYRA_LIKE,
    add_round_arguments,
    given_rounds,
    has_unlike_gpus,
    make_round_setup,
    require_none_of,
    require_tenures,
)
from experiments.simulation.scenarios import BASIC, PLAIN, find_scenario
from experiments.simulation.scheme_help import SCHEMES, SchemeHelpFormatter
from lyra_opt.commands.arguments import integer_from, number, plain_text, share
from lyra_opt.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from experiments.simulation.capture import Capture
    from experiments.simulation.replay import Replay
    from experiments.simulation.setup import Setup
    from lyra_opt.simulation.cluster import Cluster
    from lyra_opt.simulation.scheme import Options, Scheme
    from lyra_opt.simulation.workload import Workload

DEFAULT_SCHEME = "lyra"
LARGEST_CLUSTER = 1_000_000
LARGEST_SERVER = 1024
MOST_DAYS = 1000

DESCRIPTION = """\
Replay jobs on a simulated cluster of training servers, which can borrow servers of an inference
cluster, and report queuing times, job completion times (JCT), usage and preemptions. Give
--scheme more than once to see schemes side by side on the same jobs and loans.

Either a generated workload with the published figures of Lyra's trace (--workload lyra-like) or a
job trace (--jobs FILE: this project's CSV with job_id, submit_time_s, duration_s, gpus, or Philly,
Helios, Acme, Alibaba PAI, Tiresias or Microsoft ITP as published). Traces say nothing of
elasticity: none is assumed unless --scenario is given, which then draws it by --seed.

With --gpus, --cluster or a workload of their papers, jobs are gangs with measured speeds on GPUs of
several types: for schemes that decide in rounds (Hadar, HadarE, Gavel and those that they are
compared with), without loans and elastic jobs; traces do not say what their jobs train, and --seed
draws it.

With --topology, jobs are gangs of GPUs whose speed depends on how close together they are: racks of
machines of GPUs, after Dally; a trace in this project's CSV may have a column model.

Schemes of all kinds run side by side on each of these."""

EXAMPLES = """\
examples:
  lyra-opt simulate --workload lyra-like --days 2 --scheme fifo --scheme lyra
      Lyra beside its baseline on 443 x 8 training GPUs and 520 inference servers
  lyra-opt simulate --jobs trace.csv --servers 64 --scheme fifo --scheme sjf --out results/trace
      a trace of your own as it is, with tables, plots and a page
  lyra-opt simulate --jobs trace.csv --servers 64 --inference-servers 80 --scenario basic --json
      the same with loans and elastic jobs assumed, for a program to read
  lyra-opt simulate --workload lyra-like --days 1 --capture decisions
  lyra-opt solve decisions/reclaim-contested-*.json --solver lyra-greedy --solver exact
      the decisions met on the way, and how far a heuristic is from the best
  lyra-opt simulate --workload gavel-like --scheme hadar --scheme tiresias --out results/rounds
      schemes that decide in rounds, on 36 V100, 36 P100 and 36 K80
  lyra-opt simulate --jobs trace.csv --gpus v100=8,k80=16 --scheme hadar --json
      a trace of your own, whose jobs get models by seed, on GPUs of your own
  lyra-opt simulate --topology four-racks.toml --network congested-2 --scheme dally \\
      --scheme consolidated --out results/network
      delay timers beside full consolidation, on racks of your own

Exit code: 0; 1 if a simulation failed its checks; 2 for bad input or usage; 130 after Ctrl-C.
"""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Add the sub-command."""
    parser = subparsers.add_parser(
        "simulate",
        help="replay jobs on a simulated cluster",
        description=DESCRIPTION,
        epilog=f"{SCHEMES}\n\n{EXAMPLES}",
        formatter_class=SchemeHelpFormatter,
    )
    jobs = parser.add_mutually_exclusive_group()
    jobs.add_argument(
        "--jobs",
        type=plain_text,
        metavar="FILE",
        help="job trace, plain or gzip; looked up as given, then in the folder that the variable "
        "LYRA_OPT_TRACES names",
    )
    jobs.add_argument(
        "--workload",
        type=plain_text,
        metavar="NAME",
        help="generated workload instead of a trace, see below (default with --topology: "
        f"{DEFAULT_NETWORK_WORKLOAD})",
    )
    parser.add_argument(
        "--scheme",
        action="append",
        type=plain_text,
        metavar="NAME",
        dest="schemes",
        help=f"how the cluster is run, see below; may be repeated (default: {DEFAULT_SCHEME}, "
        f"{DEFAULT_ROUND_SCHEME} for workloads and options of schemes that decide in rounds, "
        f"{DEFAULT_NETWORK_SCHEME} with --topology)",
    )
    parser.add_argument(
        "--scenario",
        type=plain_text,
        metavar="NAME",
        help=f"what is assumed of jobs, see below (default: {BASIC.name} for {LYRA_LIKE}, else "
        f"{PLAIN.name})",
    )
    parser.add_argument(
        "--days",
        type=integer_from(1, MOST_DAYS),
        metavar="D",
        help=f"days of submissions of a trace or of {LYRA_LIKE} (default: all, and 15)",
    )
    parser.add_argument(
        "--vc", type=plain_text, metavar="NAME", help="only jobs of this virtual cluster of a trace"
    )
    parser.add_argument(
        "--servers",
        type=integer_from(1, LARGEST_CLUSTER),
        metavar="N",
        help="training servers (default: 443; required with --jobs)",
    )
    parser.add_argument(
        "--gpus-per-server",
        type=integer_from(1, LARGEST_SERVER),
        metavar="G",
        help="GPUs of each training server (default: 8; with --gpus: 4)",
    )
    parser.add_argument(
        "--servers-per-rack",
        type=integer_from(1, LARGEST_CLUSTER),
        metavar="N",
        help="training servers of a rack; the table of jobs then says how many racks each spanned "
        "(default: racks do not matter)",
    )
    parser.add_argument(
        "--inference-servers",
        type=integer_from(0, LARGEST_CLUSTER),
        metavar="N",
        help="inference servers of 8 GPUs (default: 520 for each 443 x 8 training GPUs; with "
        "--jobs: 0)",
    )
    parser.add_argument(
        "--inference-gpu-speed",
        type=_speed,
        metavar="SPEED",
        help="work of an inference GPU beside a training GPU's, above 0; a worker "
        "gets as many of them as are at least as fast (default: 0.333: three, as for T4 and V100)",
    )
    parser.add_argument(
        "--inference-usage",
        type=plain_text,
        metavar="FILE",
        help="series of GPU usage (CSV: time, total_gpu_num, running_gpu_num) that stands for "
        "inference demand, from the first submission on and over again where it ends; looked up as "
        "--jobs (default: generated, like that of Lyra's cluster)",
    )
    parser.add_argument(
        "--forecaster",
        type=plain_text,
        metavar="NAME",
        help="how loans foresee inference demand: oracle, last-value, seasonal or autoregressive "
        "(default: autoregressive)",
    )
    parser.add_argument(
        "--headroom",
        type=share,
        metavar="SHARE",
        help="share of the inference cluster that is never lent, 0 to 1 (default: 0.02)",
    )
    parser.add_argument(
        "--drop-oversized",
        action="store_true",
        help="leave out jobs that are larger than the cluster, and count them",
    )
    parser.add_argument(
        "--seed",
        type=integer_from(0),
        default=0,
        metavar="N",
        help="seed of all random choices (default: 0)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="write one JSON object to stdout; of several schemes an array",
    )
    parser.add_argument(
        "--out",
        type=plain_text,
        metavar="DIR",
        help="write metrics.json, jobs.csv, series.csv, plots/*.svg and report.html there",
    )
    parser.add_argument(
        "--capture",
        type=plain_text,
        metavar="DIR",
        help='write decisions met on the way there, as instance files for "lyra-opt solve" and '
        "for studies, sampled by --seed: KIND-contested-* those in which somebody loses (Lyra's "
        "greedy rule preempts a job, or GPUs do not suffice for the most workers of every job or "
        "for all gangs), KIND-easy-* the others",
    )
    parser.add_argument(
        "--capture-limit",
        type=integer_from(1),
        metavar="N",
        help="contested decisions that are kept of each kind and scheme, and easy ones "
        "(default: 50)",
    )
    add_round_arguments(parser)
    add_network_arguments(parser)
    parser.set_defaults(run=run)


def _speed(text: str) -> float:
    """Argument type: a number above 0 that is no slip of the pen."""
    value = number(text)
    if not 1e-6 <= value <= 1e6:
        raise argparse.ArgumentTypeError(f"{text!r}: must be from 1e-6 to 1e6")
    return value


def run(arguments: argparse.Namespace) -> int:
    """Run the sub-command; return the exit code."""
    from experiments.simulation.capture import MOST_CAPTURED
    from experiments.simulation.measures import counted
    from experiments.simulation.page import output_folder, require_folder_path, write_files
    from experiments.simulation.printing import print_replays, report_runs, say
    from experiments.simulation.setup import POOLS
    from instances.workloads.named import find_workload
    from lyra_opt.commands.output import stdout_kept_clean

    # All that can be wrong is found out before the first simulation.
    if arguments.jobs is None and arguments.workload is None:
        if arguments.topology is None:
            raise UserError("one of --jobs and --workload is required, unless there is --topology")
        arguments.workload = DEFAULT_NETWORK_WORKLOAD
    if arguments.topology is None:
        require_no_network(arguments)
    if arguments.workload is not None:
        find_workload(arguments.workload)
    names = arguments.schemes or [_default_scheme(arguments)]
    schemes = given_schemes(arguments, list(dict.fromkeys(names)))
    require_tenures(arguments, schemes)
    given = {name: getattr(arguments, name) for name in ("out", "capture")}
    folders = {name: None if path is None else Path(path) for name, path in given.items()}
    for option, folder in folders.items():
        if folder is not None:
            require_folder_path(f"--{option}", folder)
    if arguments.capture_limit is not None and arguments.capture is None:
        raise UserError("--capture-limit says nothing without --capture")
    setup = _setup(arguments, schemes)
    _require_runs(setup, schemes)
    with (
        output_folder("--out", folders["out"]),
        output_folder("--capture", folders["capture"]),
        stdout_kept_clean(),
    ):
        say(f"{setup.demand_in_words}{_inference_in_words(setup)}")
        if setup.dropped and setup.kind == POOLS:
            say(f"{counted(setup.dropped, 'job')} larger than the cluster left out")
        most = arguments.capture_limit or MOST_CAPTURED
        replays, captures = _replays(
            setup, schemes, most_captured=None if arguments.capture is None else most
        )
        if folders["capture"] is not None:
            _save(captures, folders["capture"])
        if replays and folders["out"] is not None:
            write_files(replays, folders["out"])
    return report_runs(
        arguments,
        [replay.as_json_object() for replay in replays],
        schemes=len(schemes),
        print_tables=lambda: print_replays(replays),
    )


def _default_scheme(arguments: argparse.Namespace) -> str:
    """Return the scheme that is simulated where none is named."""
    if arguments.topology is not None:
        return DEFAULT_NETWORK_SCHEME
    return DEFAULT_ROUND_SCHEME if has_unlike_gpus(arguments) else DEFAULT_SCHEME


def _setup(arguments: argparse.Namespace, schemes: Sequence[Scheme]) -> Setup:
    """Return what is simulated: on a network, on unlike GPUs, or on servers that are alike."""
    if arguments.topology is not None:
        return make_network_setup(arguments, _options(arguments, schemes, PLAIN.name))
    if has_unlike_gpus(arguments):
        return make_round_setup(arguments, schemes, _options(arguments, schemes, PLAIN.name))
    usual = BASIC if arguments.workload == LYRA_LIKE else PLAIN
    scenario = arguments.scenario or usual.name
    find_scenario(scenario)
    return _pool_setup(arguments, scenario, _options(arguments, schemes, scenario))


def _options(arguments: argparse.Namespace, schemes: Sequence[Scheme], scenario: str) -> Options:
    """Return how the cluster behaves."""
    from dataclasses import replace

    from experiments.simulation.setup import forks, make_options

    # What merging copies costs must not be said to be too much where nobody merges any.
    no_merging = arguments.topology is not None and not any(map(forks, schemes))
    return replace(
        make_options(seed=arguments.seed, scenario=scenario),
        leases=given_leases(arguments),
        rounds=given_rounds(arguments, **({"merge_s": 0.0} if no_merging else {})),
    )


def _require_runs(setup: Setup, schemes: Sequence[Scheme]) -> None:
    """Raise `UserError` if a job can never run, or not under some scheme."""
    from lyra_opt.simulation.speed import Speed

    workload, cluster = setup.workload, setup.cluster
    Speed(cluster).require_runs(workload)
    for scheme in schemes:
        reason = scheme.obstacle(workload, cluster, setup.options.tenure(scheme.tenure))
        if reason is not None:
            raise UserError(f"--scheme {scheme.name} does not run here: {reason}")


def _pool_setup(arguments: argparse.Namespace, scenario: str, options: Options) -> Setup:
    from experiments.simulation import setup as making
    from instances.traces import locate
    from lyra_opt.simulation.cluster import INFERENCE_GPU, Cluster, GpuType

    is_trace = arguments.jobs is not None
    require_none_of(
        ("job_count", "arrivals_per_hour"), arguments, f"is for --workload {GAVEL_LIKE} alone"
    )
    servers = arguments.servers
    gpus_per_server = arguments.gpus_per_server or making.LYRA_LIKE_GPUS_PER_SERVER
    if servers is None:
        if is_trace:
            raise UserError(
                "--jobs needs --servers, or --gpus or --cluster: traces do not say how large their "
                "cluster was"
            )
        servers = making.LYRA_LIKE_SERVERS
    inference_servers = arguments.inference_servers
    if inference_servers is None:
        inference_servers = (
            0 if is_trace else making.proportional_inference_servers(servers * gpus_per_server)
        )
    cluster = Cluster.of_servers(
        servers,
        gpus_per_server=gpus_per_server,
        inference_servers=inference_servers,
        servers_per_rack=arguments.servers_per_rack,
        inference_gpu=(
            INFERENCE_GPU
            if arguments.inference_gpu_speed is None
            else GpuType(name="inference", relative_speed=arguments.inference_gpu_speed)
        ),
    )
    if not inference_servers:
        for option in ("inference_gpu_speed", "inference_usage", "forecaster", "headroom"):
            if getattr(arguments, option) is not None:
                raise UserError(
                    f"--{option.replace('_', '-')} says nothing without --inference-servers"
                )
    workload, dropped = _pool_workload(arguments, cluster, scenario)
    headroom = arguments.headroom
    loaning = making.make_loaning(
        workload,
        cluster,
        seed=arguments.seed,
        forecaster=arguments.forecaster or making.DEFAULT_FORECASTER,
        headroom=making.DEFAULT_HEADROOM if headroom is None else headroom,
        usage=None if arguments.inference_usage is None else locate(arguments.inference_usage),
    )
    return making.Setup(
        workload=workload,
        scenario=scenario,
        cluster=cluster,
        options=options,
        dropped=dropped,
        loaning=loaning,
    )


def _pool_workload(
    arguments: argparse.Namespace, cluster: Cluster, scenario: str
) -> tuple[Workload, int]:
    """Return the jobs, and how many were left out."""
    from experiments.simulation import setup as making
    from instances.traces import locate
    from instances.workloads.named import find_workload

    if arguments.jobs is not None:
        source = str(locate(arguments.jobs))
        workload = making.trace_workload(source, vc=arguments.vc, days=arguments.days)
    else:
        source = arguments.workload
        require_none_of(("vc",), arguments, "is for --jobs alone")
        if source == LYRA_LIKE:
            if arguments.drop_oversized:
                raise UserError(f"--drop-oversized says nothing with --workload {LYRA_LIKE}")
            workload = making.generated_workload(
                days=arguments.days or making.LYRA_LIKE_DAYS,
                seed=arguments.seed,
                gpus=cluster.gpus,
                scenario=scenario,
            )
            return workload, 0
        remark = f"is for --jobs and --workload {LYRA_LIKE} alone"
        require_none_of(("days",), arguments, remark)
        workload = find_workload(source).make(cluster, arguments.seed)
    return making.admitted(
        workload,
        cluster,
        source=source,
        seed=arguments.seed,
        scenario=scenario,
        drop_oversized=arguments.drop_oversized,
    )


def _inference_in_words(setup: Setup) -> str:
    if setup.loaning is None:
        return ""
    orchestrator, plan = setup.loaning.orchestrator, setup.loaning.plan
    mean = sum(plan.on_loan) / len(plan.on_loan)
    return f"; {mean:.0f} of {orchestrator.servers:,} inference servers can be borrowed on average"


def _replays(
    setup: Setup, schemes: Sequence[Scheme], *, most_captured: int | None
) -> tuple[list[Replay], list[Capture]]:
    """Run the schemes one by one; those that fail say so and are left out.

    `most_captured` is None where no decisions are kept.
    """
    from experiments.progress import simulated_time
    from experiments.simulation.capture import Capture
    from experiments.simulation.carried_out import SimulationError
    from experiments.simulation.printing import say
    from experiments.simulation.replay import replay
    from lyra_opt.simulation.series import expected_makespan_s

    captured: list[Capture] = []

    def replay_one(scheme: Scheme, show: Callable[[float], None]) -> Replay:
        if most_captured is None:
            return replay(setup, scheme, progress=show)
        capture = Capture(
            workload=setup.workload.name,
            scheme=scheme.name,
            seed=setup.options.seed,
            most=most_captured,
        )
        done = replay(setup, scheme, capture=capture, progress=show)
        captured.append(capture)
        return done

    expected_s = expected_makespan_s(setup.workload, setup.cluster)
    replays = []
    for scheme in schemes:
        try:
            with simulated_time(scheme.name, expected_s) as show:
                replays.append(replay_one(scheme, show))
        except SimulationError as error:
            say(f"error: {error}")
    return replays, captured


def _save(captures: Sequence[Capture], folder: Path) -> None:
    from experiments.simulation.printing import say

    for capture in captures:
        capture.save(folder)
        say(capture.in_words())
