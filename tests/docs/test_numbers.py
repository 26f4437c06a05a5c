"""Numbers on pages come out of the commands beside them: those that take less than a minute."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import lyra_opt as lo
from lyra_opt.instances.workloads.lyra_like import inference_demand
from lyra_opt.simulation.loaning.comparison import compare_forecasters
from lyra_opt.simulation.loaning.forecast import find_forecaster
from tests.instances.workloads.published import published

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., tuple[int, str, str]]

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
PHILLY, ITP = "philly_jobs.csv.gz", "microsoft_itp2021_jobs.csv.gz"


def share(value: float) -> str:
    """Return a share as pages write it, such as .119."""
    return f"{value:.3f}".lstrip("0") if value else "0"


def hours(format_spec: str) -> Callable[[float], str]:
    """Return what writes seconds in hours."""
    return lambda time_s: format(time_s / 3600, format_spec)


def percent(value: float) -> str:
    """Return a share in per cent."""
    return f"{100 * value:.0f}"


NETWORK = {
    "jct_mean_s": hours(".1f"),
    "jct_p95_s": hours(".0f"),
    "queue_mean_s": hours(".1f"),
    "makespan_s": hours(",.0f"),
    "communication_share": percent,
}
ROUNDS = {
    "makespan_s": hours(".0f"),
    "jct_mean_s": hours(".1f"),
    "queue_mean_s": hours(".1f"),
    "gpu_usage": percent,
    "restarts": lambda restarts: f"{restarts / 480:.0f}",
}
REAL = {
    "queue_mean_s": "{:,.0f}".format,
    "jct_mean_s": "{:,.0f}".format,
    "preemptions_per_submission": share,
}
QUICK = ("fifo", "sjf", "gandiva", "afs", "lyra-scaling")


def text_of(page: str) -> str:
    """Return a page with a space where prose goes on in the next line."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.sub(r"(?<=[^\n|])\n *(?=[\w(])", " ", text)


def printed(run: Run, page: str, command: str, *more: object) -> str:
    """Return what a command prints that a page shows, with `more` words."""
    assert command in (DOCS / page).read_text(encoding="utf-8")
    exit_code, out, err = run(*shlex.split(command)[1:], *more)
    assert exit_code == 0, err
    return out


def require_row(page: str, name: str, *cells: str) -> None:
    """Check that the row of a table that begins with a name has these cells side by side."""
    rows = re.findall(
        rf"^\| {re.escape(name)}(?: \([^|]*\))? \|.*$", (DOCS / page).read_text(), re.MULTILINE
    )
    assert any(f"| {' | '.join(cells)} |" in row for row in rows), (cells, rows)


@pytest.mark.parametrize(
    ("page", "command", "schemes", "columns", "trace"),
    [
        ("network", "dally-batch --set cluster.network.links=congested-2", (), NETWORK, None),
        ("heterogeneous", "hadar-60", (), ROUNDS, PHILLY),
        ("cluster", "philly", QUICK, REAL, PHILLY),
        ("cluster", "itp", QUICK, REAL, ITP),
    ],
)
def test_simulations(
    page: str,
    command: str,
    schemes: tuple[str, ...],
    columns: dict[str, Callable[[float], str]],
    trace: str | None,
    run: Run,
    tmp_path: Path,
) -> None:
    """The rows of `schemes`, without them of all that the command names."""
    if trace is not None:
        published(trace)
    page = f"findings/{page}.md"
    text = (DOCS / page).read_text(encoding="utf-8")
    shown = re.search(rf"^lyra-opt simulate {command}( .*)?$", text, re.MULTILINE)
    assert shown is not None
    more = [word for scheme in schemes for word in ("--scheme", scheme)]
    printed(run, page, shown[0], *more, "--out", tmp_path / "out", "--quiet")
    for _, row in lo.load_study(tmp_path / "out").iterrows():
        require_row(page, f"`{row.scheme}`", *(write(row[key]) for key, write in columns.items()))


def test_rules_in_a_network(run: Run, tmp_path: Path) -> None:
    """The study whose optima are all proved."""
    page = "findings/network.md"
    printed(run, page, "lyra-opt study network-gap", "--out", tmp_path, "--quiet")
    runs = lo.load_study(tmp_path)
    proved = runs[runs.optimum.notna()].instance_name.nunique()
    assert f"All {proved} optima are proved" in text_of(page)
    groups = ["with timers", "without timers", "tiers and pieces", "60 jobs on 512 GPUs"]
    means = runs.groupby(["configuration", "family_group"]).excess_percent.mean().unstack()
    for name in ("dally", "consolidated"):
        require_row(page, f"`{name}`", *(f"{means[group][name]:.1f}" for group in groups))


def test_servers_lent() -> None:
    """Computed as by the script of the gallery that the page links to."""
    forecasters = [find_forecaster(name) for name in ("autoregressive", "last-value", "seasonal")]
    demand = inference_demand(days=15, servers=520)
    *_, first, second, third = compare_forecasters(
        demand, forecasters, servers=520, return_cost_s=1800
    )
    for each in (first, second, third):
        counts = (each.returned_servers, each.shortfall_server_intervals)
        cells = (share(each.share_of_clairvoyant or 0), *(f"{count:,}" for count in counts))
        require_row("findings/cluster.md", f"`{each.name}`", *cells)


@pytest.mark.parametrize(("name", "trace", "servers"), [("Philly", PHILLY, 60), ("ITP", ITP, 150)])
def test_bounds_of_traces(name: str, trace: str, servers: int, run: Run) -> None:
    """What is proved, what is found, and how far apart they are."""
    published(trace)
    page, reading = "cluster_gap.md", "--reading restart --schedule"
    command = f"lyra-opt bound plain --jobs {trace} --set cluster.servers={servers} {reading}"
    (found,) = json.loads(printed(run, page, command, "--json"))
    means = (f"{found[key]:,.0f} s" for key in ("jct_mean_bound_s", "jct_mean_found_s"))
    gap = f"{100 * found['found_above_bound_share']:.2g} %"
    require_row(page, f"{name}, {found['jobs']:,} jobs, {8 * servers:,} GPUs", *means, gap)


def test_the_worst_case_of_lyras_knapsack(run: Run, tmp_path: Path) -> None:
    """The ratio of two mean JCTs rises with the number of jobs."""
    page, ratios = "findings/allocation.md", []
    for jobs in (11, 61, 201, 601):
        command = "lyra-opt generate allocation --family worst-case --out worst-case --jobs"
        path = printed(run, page, command, jobs, "--out", tmp_path).strip()
        _, out, _ = run("solve", path, "--solver", "lyra", "--solver", "srw", "--json")
        lyra, srw = (each["objective"] for each in json.loads(out))
        ratios.append(f"{lyra / srw:.3f}")
    assert f"{', '.join(ratios[:-1])} and {ratios[-1]} for 11, 61, 201 and 601" in text_of(page)


def test_sizes_of_proofs(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The nodes of each proof, and the bytes of its file."""
    page = "proofs.md"
    monkeypatch.chdir(tmp_path)
    rows = re.findall(
        r"^\| (\d+ [^|]*) \| `(lyra-opt generate .*?)` \|", text_of(page), re.MULTILINE
    )
    assert len(rows) == 5
    for name, command in rows:
        path = printed(run, page, command).strip()
        proof = tmp_path / "proof.json"
        solver = ("--solver", "exact") if " reclaim " in command else ()
        assert run("solve", path, *solver, "--proof", proof)[0] == 0
        nodes = len(json.loads(proof.read_text())["nodes"])
        require_row(page, name, f"`{command}`", str(nodes), f"{proof.stat().st_size / 1000:.0f} KB")
