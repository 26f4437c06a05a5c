"""Numbers on pages come out of the commands beside them: those that take less than a minute."""

import json
import re
import shlex
from pathlib import Path
from statistics import mean, median

import pytest

import lyra_opt as lo
from lyra_opt.instances.preemption.recorded import RECORDINGS, recorded_decisions
from lyra_opt.instances.workloads.lyra_like import inference_demand
from lyra_opt.instances.workloads.usage import read_usage
from lyra_opt.preemption import check
from lyra_opt.preemption.put_back import could_stay
from lyra_opt.simulation.forecast import find_forecaster
from lyra_opt.simulation.loaning import compare_forecasters
from tests.instances.workloads.published import published
from tests.tables import tables

pytestmark = pytest.mark.slow
DOCS = Path(__file__).parents[2] / "docs"
PHILLY, ITP = "philly_jobs.csv.gz", "microsoft_itp2021_jobs.csv.gz"
SIMULATIONS = tables(__file__)


def text_of(page):
    """Return a page."""
    return (DOCS / page).read_text(encoding="utf-8")


def printed(run, page, command, more=""):
    """Return what a command prints that a page shows, with `more` words."""
    assert command in text_of(page)
    exit_code, out, err = run(*shlex.split(command + more)[1:])
    assert exit_code == 0, err
    return out


def written(value, format_spec):
    """Return a number as tables have it: .119, and 0."""
    return format(value, format_spec).lstrip("0") if value else "0"


def require_row(page, name, *cells):
    """Check that the row of a table that begins with a name has these cells side by side."""
    row_of = re.compile(rf"^\| {re.escape(name)}(?: \([^|]*\))? \|.*$", re.MULTILINE)
    rows = row_of.findall(text_of(page))
    assert any(f"| {' | '.join(cells)} |" in row for row in rows), (cells, rows)


@pytest.mark.parametrize("scenario", SIMULATIONS)
def test_simulations(scenario, run, tmp_path):
    """Every scheme that is run has its row."""
    table = SIMULATIONS[scenario]
    page = table["page"]
    if "trace" in table:
        published(table["trace"])
    shown = re.search(rf"^lyra-opt simulate {scenario}(?: .*)?$", text_of(page), re.MULTILINE)
    printed(run, page, shown[0], f"{table.get('schemes', '')} --quiet --out {tmp_path}/out")
    runs = lo.load_study(tmp_path / "out")
    for scheme, row in runs.groupby("scheme").mean(numeric_only=True).iterrows():
        parted = re.findall(r"(\w+)/(\S+):(\S+)", table["columns"])
        cells = (written(row[key] / float(unit), how) for key, unit, how in parted)
        require_row(page, f"`{scheme}`", *cells)


def test_rules_in_a_network(run, tmp_path):
    """The study whose optima are all proved."""
    page = "findings/network.md"
    printed(run, page, "lyra-opt study network-gap", f" --quiet --out {tmp_path}")
    runs = lo.load_study(tmp_path)
    proved = runs[runs.optimum.notna()].instance_name.nunique()
    assert f"All {proved} optima are proved" in text_of(page)
    groups = ["with timers", "without timers", "tiers and pieces", "60 jobs on 512 GPUs"]
    means = runs.groupby(["configuration", "family_group"]).excess_percent.mean().unstack()
    for name in ("dally", "consolidated"):
        require_row(page, f"`{name}`", *(f"{means[group][name]:.1f}" for group in groups))


@pytest.mark.parametrize("rates", ["", "servegen_request_rates_10min.csv.gz"])
def test_servers_lent(rates):
    """Computed as by the script of the gallery that the page links to."""
    forecasters = [find_forecaster(name) for name in ("autoregressive", "last-value", "seasonal")]
    demand = read_usage(published(rates)) if rates else inference_demand(days=15, servers=520)
    for each in compare_forecasters(demand, forecasters, servers=520, return_cost_s=1800)[-3:]:
        counts = (each.returned_servers, each.shortfall_server_intervals)
        cells = (written(each.share_of_clairvoyant or 0, ".3f"), *(f"{each:,}" for each in counts))
        require_row("findings/cluster.md", f"`{each.name}`", *cells)


@pytest.mark.parametrize(("name", "trace", "servers"), [("Philly", PHILLY, 60), ("ITP", ITP, 150)])
def test_bounds_of_traces(name, trace, servers, run):
    """What is proved, what is found, and how far apart they are."""
    published(trace)
    command = f"lyra-opt bound plain --jobs {trace} --set cluster.servers={servers}"
    page, options = "cluster_gap.md", " --reading restart --schedule"
    (found,) = json.loads(printed(run, page, command + options, " --format json"))
    means = (f"{found[key]:,.0f} s" for key in ("jct_mean_bound_s", "jct_mean_found_s"))
    gap = f"{100 * found['found_above_bound_share']:.2g} %"
    require_row(page, f"{name}, {found['jobs']:,} jobs, {8 * servers:,} GPUs", *means, gap)


def test_the_worst_case_of_lyras_knapsack(run, tmp_path):
    """The ratio of two mean JCTs rises with the number of jobs."""
    page, ratios = "findings/allocation.md", []
    command = "lyra-opt generate allocation --family worst-case --out worst-case --jobs"
    for jobs in (11, 61, 201, 601):
        path = printed(run, page, command, f" {jobs} --out {tmp_path}").strip()
        _, out, _ = run("solve", path, "--solver", "lyra", "--solver", "srw", "--format=json")
        lyra, srw = (each["objective"] for each in json.loads(out))
        ratios.append(f"{lyra / srw:.3f}")
    said = f"{', '.join(ratios[:-1])} and {ratios[-1]} for 11, 61, 201 and 601 jobs"
    assert said in text_of(page).replace("\n", " ")


def test_sizes_of_proofs(run, tmp_path, monkeypatch):
    """The nodes of each proof, and the bytes of its file."""
    monkeypatch.chdir(tmp_path)
    page = "proofs.md"
    rows = re.findall(r"^\| (\d+ [^|]*) \| `(lyra-opt .*?)` \|", text_of(page), re.MULTILINE)
    assert len(rows) == 8
    for name, command in rows:
        path = printed(run, page, command).strip()
        solver = () if " heterogeneous " in command else ("--solver", "exact")
        assert run("solve", path, *solver, "--proof", "proof.json")[0] == 0
        proof = Path("proof.json").read_bytes()
        document, size = json.loads(proof), f"{len(proof) / 1000:.0f} KB"
        trees = [tree for trees in document.get("domains", [[document]]) for tree in trees]
        nodes = sum(len(tree["nodes"]) for tree in trees)
        require_row(page, name, f"`{command}`", str(nodes), size)


def test_decisions_of_real_schedulers():
    """Each row is computed from the recordings, without a study and its tables."""
    of_all = []
    for recording in RECORDINGS:
        rows = []
        for decision in recorded_decisions(recording):
            instance, solution = decision.instance, decision.solution
            report, optimum = check(instance, solution), lo.solve(instance, "exact").objective
            stayed = sum(could_stay(instance, solution).values())
            rows.append((report.objective, optimum, report.lost_pods_in_all, stayed))
        of_all += rows
        require_decisions(rows)
    require_decisions(of_all)


def require_decisions(rows):
    """Check that the finding has a row with the number of cases and the six percentages."""
    excess = [paid / least - 1 for paid, least, *_ in rows]
    paid, least, lost, stayed = (sum(column) for column in zip(*rows, strict=True))
    shares = (
        mean(each == 0 for each in excess),
        *(mean(excess), median(excess), paid / least - 1),
        *(mean(stayed > 0 for *_, stayed in rows), stayed / lost),
    )
    cells = " | ".join([str(len(rows)), *(f"{100 * share:.1f}" for share in shares)])
    assert f"| {cells} |" in text_of("findings/preemption.md")
