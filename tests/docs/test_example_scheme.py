"""The example package of the documentation is installed as it says, and does what it says."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.experiments.simulation.conftest import changes
from tests.tables import beside

EXAMPLE = Path(__file__).parents[2] / "docs" / "example_scheme"


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the package into a folder of its own; return an environment that sees it."""
    target = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--disable-pip-version-check", "--target", str(target)]
    subprocess.run([*command, str(EXAMPLE)], check=True)
    return {**os.environ, "PYTHONPATH": str(target)}


def test_runs_on_every_kind_of_cluster(installed):
    """One file and one line: pools, types and racks, under all tenures, and with loans."""
    command = [sys.executable, "-c", beside(__file__, "on_every_cluster.txt")]
    ran = subprocess.run(command, env=installed, capture_output=True, text=True)
    assert ran.stdout == "all ran\n", ran.stderr


@pytest.fixture(scope="module")
def lyra_opt(installed):
    """Return what runs the command, and returns what it printed."""

    def run(*arguments):
        command = [sys.executable, "-m", "lyra_opt", *map(str, arguments)]
        ran = subprocess.run(command, env=installed, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    return run


def test_the_command_line_knows_it(lyra_opt, write):
    """Scheme and trace layout of the package are found by name and by columns."""
    trace = write("our_job,our_start,our_length,our_gpus\na,0,1000,8\nb,10,20,8\n", "ours.csv")
    given = ("--jobs", trace, *changes("cluster.servers=1"), "--scheme", "least-remaining")
    record = json.loads(lyra_opt("simulate", "plain", *given, "--format=json"))
    assert (record["jobs"], record["preemptions"]) == (2, 1)


@pytest.mark.parametrize(
    ("where", "gpus"),
    [
        (("cluster.servers=2", "cluster.gpus_per_server=4"), 8),
        (("cluster.like=our-cluster",), 8),
        (('cluster.groups=[{servers=1, gpu_type="v100"}, {servers=1, gpu_type="k80"}]',), 16),
        (("cluster.network.topology=racks.toml",), 8),
    ],
)
def test_its_jobs_run_on_every_kind_of_cluster(lyra_opt, tmp_path, monkeypatch, where, gpus):
    """The generator is given the cluster that the scenario describes, and the seed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "racks.toml").write_text(beside(__file__, "racks.toml"))
    schemes = ("--scheme", "least-remaining", "--scheme", "least-remaining-borrowed")
    given = (*changes("jobs.workload=our-jobs", *where), *schemes, "--seed", 3, "--processes", 1)
    for record in json.loads(lyra_opt("simulate", "plain", *given, "--format=json")):
        assert (record["workload"], record["jobs"]) == ("our-jobs-seed3", 2 * gpus)
        assert record["finished"] == 2 * gpus


def test_its_scenario_is_run(lyra_opt):
    """By its name, and changed as any other: what it assumes makes jobs elastic."""
    given = ("simulate", "half-elastic", "--scheme", "lyra", "--format=json")
    ours = json.loads(lyra_opt(*given))
    rigid = json.loads(lyra_opt(*given, *changes("jobs.assumptions.elastic_percent=0")))
    assert ours["scenario"] == rigid["scenario"] == "half-elastic"
    assert rigid["scaling_operations"] == 0 < ours["scaling_operations"]
    assert any("50 % elastic" in sentence for sentence in ours["assumptions"])


def test_lists_name_it(lyra_opt):
    """Each with its summary."""
    for arguments, entry in (
        (("schemes",), r"least-remaining .*least remaining GPU time first, with preemption"),
        (("scenarios", "parts"), r"  our-jobs +two jobs for each GPU, one a minute"),
        (("scenarios", "parts"), r"  our-cluster +4 GPUs, and 4 that are half as fast"),
        (("scenarios", "parts"), r"  our-table +our_job, our_start, our_length, our_gpus"),
        (("scenarios", "list"), r"half-elastic +Our jobs on servers that are alike"),
    ):
        assert re.search(f"^{entry}", lyra_opt(*arguments), flags=re.MULTILINE), entry
