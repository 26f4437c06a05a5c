"""Every command that prints a table writes it in five formats, from the same numbers."""

import csv
import io
import json
import re
import shutil

import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.instances.snapshots.sample import kubectl_list
from tests.conftest import FIGURE_5
from tests.experiments.conftest import STUDY
from tests.experiments.simulation.conftest import THREE_JOBS
from tests.latex import compile_latex, rows_of_latex
from tests.tables import tables


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a trace, a study file, and the results of a simulation."""
    place = tmp_path_factory.mktemp("formats")
    (place / "three.csv").write_text(THREE_JOBS)
    (place / "tiny.toml").write_text(STUDY)
    lo.simulate(
        "plain",
        jobs=place / "three.csv",
        changes={"cluster.servers": 1, "cluster.gpus_per_server": 2},
        schemes=["fifo", "sjf"],
        out=place / "runs",
    )
    cluster = kubectl_list(lo.generate("preemption", "crowded", nodes=8, seed=1))
    (place / "cluster.json").write_text(json.dumps(cluster))
    return place


COMMANDS = {name: words.split() for name, words in tables(__file__)["commands"].items()}


@pytest.mark.parametrize("name", COMMANDS)
def test_formats(name, run, folder, monkeypatch, tmp_path):
    """LaTeX and Markdown have the same cells; JSON and CSV can be read, and stdout has no more."""
    monkeypatch.chdir(folder)
    out = {}
    for form in ("json", "csv", "markdown", "latex"):
        shutil.rmtree(folder / "study", ignore_errors=True)
        exit_code, out[form], err = run(*COMMANDS[name], "--quiet", "--format", form)
        assert exit_code == 0, err
    assert json.loads(out["json"])
    header, *rows = csv.reader(io.StringIO(out["csv"]))
    assert rows
    assert all(header)
    assert {len(row) for row in rows} == {len(header)}
    of_latex = [row for table in rows_of_latex(out["latex"]) for row in table]
    of_markdown = [line for line in out["markdown"].splitlines() if line.startswith("| ")]
    names = {line.split(" | ")[0] for line in of_markdown if not line.startswith("| ---")}
    assert len({row[0] for row in of_latex}) == len(names)
    assert run(*COMMANDS[name], "--format", "latec")[0] == 2


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_latex_compiles(run, folder, monkeypatch, tmp_path):
    """The tables of all commands, one after another in one document."""
    monkeypatch.chdir(folder)
    shutil.rmtree(folder / "study", ignore_errors=True)
    printed = {
        name: run(*command, "--quiet", "--format", "latex")[1] for name, command in COMMANDS.items()
    }
    assert not compile_latex("\n\n".join(printed.values()), tmp_path)


def test_many_files_have_a_summary_for_papers(run, tmp_path):
    """A table of the instances and one of the solvers, as from `compare`."""
    fleets = lo.generate("reclaim", "messy-dist", servers=20, seeds=range(3))
    files = [tmp_path / f"{fleet.name}.json" for fleet in fleets]
    for fleet, file in zip(fleets, files, strict=True):
        lo.save(fleet, file)
    names = ["random", "exact", "lyra-greedy-elastic", "pulp-highs-strengthened"]
    solvers = [word for name in names for word in ("--solver", name)]
    printed = run("solve", *files, *solvers, "--format", "latex")[1]
    (first, *cells), (head, *rows) = rows_of_latex(printed)
    assert [heading.replace("- ", "-") for heading in first] == ["instance", *names]
    assert [row[2:4] for row in cells] == [
        [cell, "--"] for cell in ("12 (0.0)", "10 (0.0)", "10 (0.0)")
    ]
    assert not any(each in printed for each in (str(tmp_path), "collateral"))
    assert [(row[0], row[-1]) for row in rows] == [
        ("random", "3 of 3"),
        ("exact", "3 of 3"),
        ("lyra-greedy-elastic", "0 of 3"),
        ("pulp-highs-strengthened", "3 of 3"),
    ]
    assert head[1] == r"mean excess (\%)"
    assert shutil.which("pdflatex") is None or not compile_latex(printed, tmp_path)
    frame = lo.compare(fleets, names)
    assert frame.index.names == ["instance", "solver"]
    _, of_frame = rows_of_latex(lo.summary(frame, "latex"))
    assert [row[:5] for row in of_frame] == [row[:5] for row in [head, *rows]]
    alone = pd.concat([lo.compare(fleet, names).objective for fleet in fleets])
    assert [*frame.objective.astype(object)] == [*alone.astype(object)]


def test_summaries_in_python(folder, run, monkeypatch):
    """The same LaTeX as on the command line, and the units that names of columns state."""
    monkeypatch.chdir(folder)
    _, printed, _ = run("report", "runs", "--format", "latex")
    assert lo.summary("runs", "latex") == printed
    compared = lo.compare(lo.load(FIGURE_5), ["scf", "random"])
    (rows,) = rows_of_latex(lo.summary(compared, "latex"))
    assert rows[0][:2] == ["solver", "status"]
    assert r"gap to best (\%)" in rows[0]
    assert "collateral GPUs" not in rows[0]
    assert len(list(csv.DictReader(io.StringIO(lo.summary(compared, "csv"))))) == 2
    with pytest.raises(lo.UserError, match="did you mean latex"):
        lo.summary(compared, "latx")


def test_replays_in_papers(run, folder, monkeypatch):
    """A row per scheme and one for the bound; the case, the brackets and the digits are printed."""
    monkeypatch.chdir(folder)
    runs = lo.simulate(
        "plain",
        jobs="three.csv",
        changes={"cluster.servers": 1, "cluster.gpus_per_server": 2, "bounds": True},
        schemes=["fifo", "sjf"],
        seeds=2,
        out="bounded",
    )
    chosen = ["jct_mean_s", "makespan_s"]
    text = runs.summary("latex", measures=chosen)
    means, _ = rows_of_latex(text)
    assert "% The proved bounds apply to the reading restart" in text
    assert "% Simulated: a preempted job" in text
    assert [row[0] for row in means] == ["", "fifo", "sjf", "proved lower bound"]
    assert [cell.split(" (")[0] for cell in means[0]] == ["", "JCT, mean", "Makespan"]
    assert r"\multicolumn{3}{@{}l@{}}{scenario plain: means and, in brackets, least to " in text
    exit_code, out, _ = run(
        *("report", "bounded", "--format", "latex", "--measures", ",".join(chosen))
    )
    assert (exit_code, out) == (0, text)
    for form, remark in (("latex", "did you mean jct_mean_s?"), ("csv", "choose the format table")):
        exit_code, _, err = run("report", "bounded", "--format", form, "--measures", "jct_men_s")
        assert exit_code == 2
        assert remark in err


def test_each_case_has_a_float(run, folder, monkeypatch):
    """Two variants have a ``table*`` each, with two tabulars; pictures of one variant name it.

    A mean without a bound is a dash.
    """
    monkeypatch.chdir(folder)
    runs = lo.simulate(
        "plain",
        jobs="three.csv",
        changes={"cluster.servers": 1, "axes": {"cluster.gpus_per_server": [2, 3]}, "bounds": True},
        schemes=["fifo", "sjf"],
    )
    text = runs.summary("latex")
    parts = text.split(r"\end{table*}")
    for gpus, part in zip((2, 3), parts[:2], strict=True):
        means, differences = rows_of_latex(part + r"\end{table*}")
        assert [row[0] for row in means[1:]] == ["fifo", "sjf", "proved lower bound"]
        assert {*means[3][4:]} == {"--"}
        assert rf"\caption{{cluster.gpus\_per\_server = {gpus}}}" in part
        assert f"\n% scenario plain, cluster.gpus_per_server = {gpus}, " in part
        assert len(differences) == 3
        heading = "difference, 95 \\% interval"
        assert differences[0][2:] == [heading, rf"{heading} (\%)"]
    for picture in ("distributions_2", "time_parts_2"):
        figure = runs.plot(picture)
        titles = [figure.get_supxlabel(), *(axes.get_title("left") for axes in figure.axes)]
        assert "cluster.gpus_per_server = 3" in " ".join(titles), picture


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="pdflatex is not installed")
def test_five_schemes_fit_a_page(write, tmp_path):
    """Five schemes and measures with ranges, and a bound; the ranges share the means' decimals."""
    jobs = [f"{n},{3000 * n},{1 + n % 4},{500 + 900 * (n**3 % 11)}" for n in range(200)]
    trace = write("\n".join(["job_id,submit_time_s,gpus,duration_s", *jobs, ""]), "trace.csv")
    runs = lo.simulate(
        "plain",
        jobs=trace,
        changes={"cluster.servers": 1, "jobs.bootstrap.days": 7, "bounds": True},
        schemes=["fifo", "sjf", "afs", "tiresias-skew", "least-loss"],
        seeds=3,
    )
    text = runs.summary("latex")
    *parts, _ = rows_of_latex(text)
    means = parts[0]
    assert {len(part) for part in parts} == {7}
    assert sum(len(part[0]) - 1 for part in parts) == 5
    numbers = [re.findall(r"[\d.]+", row[1]) for row in means[1:]]
    assert {len(number.partition(".")[2]) for row in numbers for number in row} == {2}
    assert not compile_latex(text, tmp_path)
