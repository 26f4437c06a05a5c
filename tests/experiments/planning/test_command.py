"""The commands ``lyra-opt plan`` and ``anonymize``, and ``lo.plan``, from file to answer."""

import json
import re
from dataclasses import replace

import pytest

import lyra_opt as lo
from lyra_opt.experiments.planning.asking import fit, pending_gang
from lyra_opt.experiments.planning.planning import plan
from lyra_opt.experiments.planning.questions import Drain, Fit
from lyra_opt.instances.snapshots.reading import read_snapshot
from lyra_opt.instances.snapshots.sample import kubectl_list, padded
from tests.tables import tables

TABLES = tables(__file__)

OBJECTIVE = ("unplaced", "lost_gangs_by_priority", "lost:gpu", "lost_pods")


@pytest.fixture
def file(tmp_path):
    """Return a file of a small cluster as kubectl writes it."""
    path = tmp_path / "cluster.json"
    path.write_text(
        json.dumps(kubectl_list(lo.generate("preemption", "crowded", nodes=40, seed=1)))
    )
    return path


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("level", [None, "rack"])
def test_a_plan_of_a_file_is_the_optimum_of_its_instance(write, seed, level):
    """The cluster of an instance, written as kubectl does and read again, has the same optima."""
    instance = lo.generate("preemption", "crowded", nodes=54, seed=seed)
    path = write(json.dumps(kubectl_list(instance)), "cluster.json")
    snapshot = read_snapshot([path])
    demand = replace(instance.demand, level=level)
    expected = lo.solve(replace(instance, demand=demand, objective=OBJECTIVE), "exact")
    found = plan(snapshot, Fit(gang=pending_gang(snapshot, "pending"), level=level or ""))
    assert found.answer.status is expected.status
    assert found.answer.measures.get("terms") == expected.measures.get("terms")
    drained = replace(instance, demand=None, victims="any", empty_nodes=3, objective=OBJECTIVE)
    found = plan(snapshot, Drain(count=3))
    assert found.answer.measures["terms"] == lo.solve(drained, "exact").measures["terms"]


def test_padding_changes_nothing(file, write):
    document = json.loads(file.read_text())
    longer = write(json.dumps(padded(document, daemons=1)), "longer.json")
    one, two = (lo.plan(path, "drain", nodes=4) for path in (file, longer))
    assert one.answer.measures["terms"] == two.answer.measures["terms"]
    assert longer.stat().st_size > 10 * file.stat().st_size


@pytest.mark.parametrize("words", TABLES["words"])
def test_questions(run, file, tmp_path, words):
    """Each answers in words, as JSON and as a page, with equal content."""
    exit_code, out, err = run("plan", *words, "--snapshot", file)
    assert (exit_code, err) == (0, "")
    page, picture = tmp_path / "plan.html", tmp_path / "plan.png"
    _, text, _ = run(
        *("plan", *words, "--snapshot", file, "--format=json", "--page", page, "--plot", picture)
    )
    found = json.loads(text)
    for sentence in (found["headline"], found["proof"], *found["explanations"]):
        assert sentence in out
        assert sentence in page.read_text().replace("&#39;", "'")
    assert all(command in out for command in found["commands"] + found["undo"])
    assert picture.stat().st_size > 0


def test_python_gives_the_same_plan(run, file, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "2000")
    found = lo.plan(file, "fit", pods=18, gpus=8, priority="p3", explain="n5")
    words = ("plan", "fit", "--pods=18", "--gpus=8", "--priority=p3", "--explain=n5")
    _, out, _ = run(*words, "--snapshot", file)
    assert repr(found) == f"<plan: {out.splitlines()[0]}>"
    assert str(found) == out.rstrip()
    for form in ("markdown", "csv", "latex"):
        _, out, _ = run(*words, "--snapshot", file, "--format", form)
        assert found.summary(form) == lo.summary(found, form) == out
    assert list(found.frame.lost_gpu_s) == [each.lost_gpu_s for each in found.disruptions]
    assert found.status == "optimal"
    assert found.proof in str(found)
    assert all(command in str(found).splitlines() for command in found.undo)
    assert found.undo
    hurt = {pod.node for each in found.disruptions for pod in each.lost}
    assert hurt <= set(", ".join(found.frame.nodes).split(", "))
    found.page(tmp_path / "plan.html")
    found.plot(file=tmp_path / "plan.png", style="paper")
    assert found.explanations[0] in (tmp_path / "plan.html").read_text()
    assert (tmp_path / "plan.png").stat().st_size > 0


@pytest.mark.parametrize(("names", "options", "message"), TABLES["wrong_options"])
def test_lo_plan_names_wrong_options(file, names, options, message):
    with pytest.raises(lo.UserError, match=re.escape(message)):
        lo.plan(file, *names, **options)


def test_lo_plan_takes_files_and_snapshots():
    with pytest.raises(lo.UserError, match="snapshot is .*: must be a file of kubectl or Slurm"):
        lo.plan({"items": []}, "drain", nodes=1)
    with pytest.raises(lo.UserError, match="the snapshot comes before the question"):
        lo.plan("drain", "cluster.json", "n1")


def test_described_pods_tolerate_the_taints_of_their_resources(file):
    """As the admission controller ExtendedResourceToleration arranges."""
    found = fit(read_snapshot([file]), pods=1, request={"gpu": 1}, tolerate=["spot"])
    keys = {each.key for each in found.gang.shapes[0].placement.tolerations}
    assert {"nvidia.com/gpu", "spot"} <= keys
