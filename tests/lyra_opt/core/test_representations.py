"""How instances, solutions, answers and verifications show themselves."""

import pytest

import lyra_opt as lo
from lyra_opt.core.representations import MOST_ENTRIES, MOST_ROWS
from lyra_opt.core.verifying import Verification
from lyra_opt.instances.heterogeneous.clusters import find_cluster
from lyra_opt.instances.workloads.named import LYRA_LIKE
from lyra_opt.reclaim import Instance, Job, Server, Solution, WorkerGroup
from tests.html_page import Page
from tests.lyra_opt.reclaim import examples
from tests.lyra_opt.reclaim.examples import job_on


def fleet(servers, name="<script>alert(1)</script>"):
    names = [f"s&{place}" for place in range(servers)]
    jobs = [job_on(f"<b>j{place}", [server]) for place, server in enumerate(names)]
    return examples.fleet(names, *jobs, name=name)


@pytest.mark.parametrize("servers", [1, 60])
def test_html_is_whole_and_escaped(servers):
    """No name becomes a tag; a picture of small instances alone; the first rows of large ones."""
    instance = fleet(servers)
    answer = lo.solve(instance, "exact")
    for shown in (instance, answer, answer.solution):
        page = Page(shown._repr_html_())
        assert not {"script", "b"} & set(page.tags)
    page = Page(instance._repr_html_())
    assert "<script>alert(1)</script>" in page.words
    assert ("svg" in page.tags) == (servers == 1)
    assert "s&0 base 1" in page.words
    assert (f"and {servers - MOST_ROWS:,} more" in page.words) == (servers > MOST_ROWS)
    page = Page(answer._repr_html_())
    assert ("svg" in page.tags) == (servers == 1)
    assert "optimal" in page.words


def test_the_servers_decide_whether_a_fleet_is_small():
    """Twenty servers with thirty jobs are; the answer and the instance agree."""
    small = lo.generate("reclaim", "messy-dist", servers=20)
    assert len(small.jobs) > len(small.servers)
    for shown in (small, lo.solve(small)):
        assert "svg" in Page(shown._repr_html_()).tags


def test_an_answer_without_a_solution_has_html_too():
    """With the reason."""
    shares = lo.generate("heterogeneous", "offline", jobs=2, objective="throughput")
    page = Page(lo.solve(shares, "gavel-las")._repr_html_())
    assert "unsupported" in page.words


def test_html_of_a_verification():
    """What is wrong stands there, escaped."""
    wrong = Verification(violations=("server <b>x</b>",), objective=None, measures={"a_s": 1.5})
    assert "not valid" in Page(wrong._repr_html_()).words
    assert "server <b>x</b>" in Page(wrong._repr_html_()).words
    assert "a (s)" in Page(wrong._repr_html_()).words


def test_a_large_instance_does_not_fill_a_terminal():
    """What is cut is counted; what is short can be read back."""
    assert len(repr(fleet(10_000))) < 1000
    assert "... 9,997 more" in repr(fleet(10_000))
    small = fleet(MOST_ENTRIES)
    names = {each.__name__: each for each in (Instance, Server, Job, WorkerGroup)}
    assert eval(repr(small), names) == small
    assert repr(Solution(("s",))) == "Solution(servers=('s',))"


def test_workloads_and_clusters_are_short_too():
    """As instances; columns without a value are left out."""
    cluster = find_cluster("gavel-108")
    workload = LYRA_LIKE.make(cluster, 0)
    assert len(repr(workload)) < 3000 < 100 * len(workload.jobs)
    page = Page(workload._repr_html_())
    assert f"jobs ({len(workload.jobs):,})" in page.words
    assert "submit (s)" in page.words
    assert "deadline" not in page.words
    assert workload.assumptions[0][:200] in page.words
    assert "servers (27)" in Page(cluster._repr_html_()).words


def test_the_repr_of_an_answer_is_a_line():
    """It names neither the whole instance nor the solution."""
    answer = lo.solve(fleet(3, "three"), "exact")
    assert repr(answer) == "<answer of exact on 'three': optimal, objective 1>"
