"""What `diff`, `counterexample`, `paper` and `tune` return is what their commands print."""

import json
import tomllib

import pandas as pd
import pytest

import lyra_opt as lo
from lyra_opt.paper_figures.document import find_paper
from tests.experiments.tuning.test_command import SMALL
from tests.html_page import Page

SMALL_CLUSTER = {"cluster.servers": 4, "jobs.parameters.days": 1}


def printed_json(run, *arguments):
    exit_code, out, err = run(*arguments)
    assert exit_code == 0, err
    return json.loads(out)


def test_diff(run, tmp_path, monkeypatch):
    """Two schemes of a folder; the text is that of a terminal."""
    monkeypatch.setenv("COLUMNS", "80")
    runs = lo.simulate(
        "lyra-paper", schemes=["fifo", "lyra"], seeds=2, changes=SMALL_CLUSTER, out=tmp_path
    )
    found = lo.diff(tmp_path, by=("scheme", "fifo", "lyra"))
    by = ("--by", "scheme", "fifo", "lyra")
    record = printed_json(run, "diff", tmp_path, *by, "--format=json")
    assert found.as_json_object() == record | {"a": "fifo", "b": "lyra"}
    chosen = ("markdown", ["jct_p50_s"])
    assert lo.summary(runs, *chosen) == runs.summary(*chosen) != runs.summary("markdown")
    with pytest.raises(lo.UserError, match="can only be chosen for runs of lo.simulate"):
        lo.summary(runs.frame, *chosen)
    differences = lo.summary(runs.differences(), "markdown")
    assert "difference, 95 % interval (%) |" in differences
    assert "(s)" not in differences
    of_runs = lo.diff(runs, by=("scheme", "fifo", "lyra"))
    pd.testing.assert_frame_equal(of_runs.measures, found.measures)
    assert str(lo.diff(runs, runs)).startswith("A: the runs of lyra-paper\n")
    with pytest.raises(lo.UserError, match=r"add --resume \(in Python resume=True\)"):
        lo.simulate("lyra-paper", out=tmp_path)
    with pytest.raises(lo.UserError, match="first line that differs: . # run with bounds = true"):
        lo.simulate(
            "lyra-paper",
            schemes=["fifo", "lyra"],
            seeds=2,
            changes=SMALL_CLUSTER,
            out=tmp_path,
            bound=True,
            resume=True,
        )
    assert found.summary("csv") == run("diff", tmp_path, *by, "--format=csv")[1]
    assert repr(found.summary("latex")) == lo.summary(found, "latex").rstrip("\n")
    assert list(found.frame.measure.tail(len(found.equal))) == found.equal
    assert found.frame.difference.tail(len(found.equal)).eq(0).all()
    assert repr(found).startswith("<diff of fifo and lyra: 2 pairs, ")
    figure = found.plot(style="paper", file=tmp_path / "diff.svg")
    data = pd.read_csv(tmp_path / "diff.csv", keep_default_na=False, na_values=[""])
    assert data.change_percent.tolist() == pytest.approx(
        found.measures.change_percent.tolist(), nan_ok=True
    )
    drawn = found.main.measures.dropna(subset="change_percent")
    (axes,) = figure.axes
    marks = [line.get_xdata().item() for line in axes.lines if line.get_marker() == "o"]
    assert marks == drawn.change_percent.tolist()
    assert len(axes.get_yticklabels()) == len(drawn) > 5
    with pytest.raises(lo.UserError, match="nothing can be drawn"):
        lo.diff(runs, runs).plot()
    assert max(map(len, str(found).splitlines())) <= 80
    page = Page(found._repr_html_())
    assert "2 pairs of runs" in page.words
    assert (page.tags.count("table"), "pre" in page.tags) == (1, True)
    assert "white-space: pre-wrap" in found._repr_html_()


def test_counterexample(run, tmp_path, monkeypatch):
    """The same search; the instance and both answers are objects."""
    monkeypatch.chdir(tmp_path)
    options = ("--heuristic", "scf", "--against", "lyra-greedy", "--max", "jobs=2", "--format=json")
    record = printed_json(run, "counterexample", *options)
    found = lo.counterexample("scf", "lyra-greedy", limits={"jobs": 2})
    of_files = ("file", "solution_files", "wall_time_s")
    assert {**found.as_json_object([]), **{key: record[key] for key in of_files}} == record
    assert lo.solve(found.counterexample.instance, "scf").objective == record["objective"]
    assert repr(found)[1:-1] == str(found).splitlines()[0]
    assert "svg" in found._repr_html_()
    none = lo.counterexample("peeling", limits={"jobs": 1})
    assert none.counterexample is None
    assert "no counterexample found" in none._repr_html_()


def test_the_tables_of_papers():
    """Each is a frame whose numbers are numbers; ranges are columns, and verdicts are counted."""
    table = lo.paper("lyra", table=5)
    ours = table.pivot(index="row", columns="column", values="ours")
    assert ours.loc["Baseline", "JCT mean (s)"] / table.paper[3] == pytest.approx(
        table["ours / paper"][3], abs=0.01
    )
    assert table.attrs["verdicts"].startswith(f"{len(table)} published numbers")
    for counts in table.attrs["verdict_counts"].values():
        assert all(f"{count} {name}" in table.attrs["verdicts"] for name, count in counts.items())
    assert "|" not in table.attrs["verdicts"]
    assert str(table.head(1)).startswith(f"{table.attrs['title']}\n\n ")
    picture = " ".join(str(lo.paper("dally", figure=2)).split())
    assert picture.startswith("Figure 2: gains for different loads")
    assert "are taken from Tables 2 and 3. " in picture
    for name in lo.papers().index:
        assert lo.paper(name).numbers.dtype == float
        for each in find_paper(name).publications:
            frame = lo.paper(name, **{each.kind: each.number})
            if "ours" in frame:
                assert frame.ours.dtype == float
    ranged = lo.paper("gavel", table=1).dropna()
    assert ranged["ours, least"].le(ranged.ours).all()
    assert ranged["ours, greatest"].ge(ranged.ours).all()
    again = lo.paper("lyra", table=1, run=True)
    pd.testing.assert_frame_equal(again, lo.paper("lyra", table=1))


@pytest.mark.slow
def test_tune(tmp_path):
    """Best values and trials are frames; the scenario with the best values is kept."""
    (tmp_path / "small.toml").write_text(SMALL)
    tuned = lo.tune(tmp_path / "small.toml", out=tmp_path / "out")
    record = json.loads((tmp_path / "out/tuning.json").read_text())
    assert len(tuned.trials) == len(record["tried"]["rows"])
    assert tuned.best.loss.item() == tuned.trials.loss.min() == record["loss"]
    assert repr(tuned).startswith("<tuning ")
    assert len(repr(tuned)) < 80
    for key, value in record["parameters"].items():
        assert tuned.best[key].item() == value
        assert f"  {key} = {value}" in str(tuned)
    assert f"means of {record['targets'][0]['measure']}" in str(tuned)
    figure = tuned.plot(file=tmp_path / "trials.svg")
    data = pd.read_csv(tmp_path / "trials.csv")
    assert data.loss.tolist() == pytest.approx(tuned.trials.loss.tolist())
    best = next(line for line in figure.axes[0].lines if line.get_label() == "best so far")
    assert data.trial.tolist() == best.get_xdata().tolist() == tuned.trials.index.tolist()
    assert all(tick.is_integer() for tick in figure.axes[1].get_xticks())
    assert best.get_ydata().tolist() == pytest.approx(tuned.trials.loss.cummin().tolist())
    assert (tmp_path / "out/plots/trials.csv").read_text() == (tmp_path / "trials.csv").read_text()
    of_dict = lo.tune(tomllib.loads(SMALL))
    pd.testing.assert_frame_equal(of_dict.trials, tuned.trials)
    assert lo.simulate(tmp_path / "out/best.toml").frame.jct_mean_s.notna().all()
