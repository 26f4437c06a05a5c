"""Types of the front door, as the type checker of a user sees them."""

from __future__ import annotations

import re
import sys

import pytest
from mypy import api

SCRIPT = """
import lyra_opt as lo

fleet = lo.reclaim.Instance(
    servers=[lo.reclaim.Server(id="a", gpus=8), {"id": "b", "gpus": 8}],
    jobs=[{"id": "j", "workers": [{"server": "a", "base": 1}]}],
    reclaim_servers=1,
    semantics="rigid",
)
fleet = lo.load("fleet.json", lo.reclaim.Instance)
gpus: int = fleet.servers[0].gpus
variant: lo.reclaim.Semantics = fleet.semantics
answer = lo.solve(fleet, "exact", time_limit_s=10)
chosen: tuple[str, ...] = answer.solution.servers
objective: int | float | None = answer.objective
table = lo.compare(fleet, ["lyra-greedy", "exact", "cpsat"], time_limit_s=10)
rows: int = len(table)
graph = fleet.to_networkx()
lo.save(fleet, "fleet.json")
lo.save(answer, "solution.json")
again = lo.solve(fleet, "tabu", start=answer, threads=2, certify=True)
also = lo.solve(fleet, "tabu", start=lo.reclaim.Solution(["a"]))
lo.plot(fleet, [answer, also.solution], file="fleet.svg")
lo.plot_progress({"tabu": again})
valid: bool = lo.verify(fleet, answer).valid and lo.verify(fleet, "answer.json").valid
frames = fleet.to_frames()
same: lo.reclaim.Instance = lo.reclaim.Instance.from_frames(**frames, reclaim_servers=1)
built = lo.reclaim.Instance(servers=frames["servers"], jobs=[], reclaim_servers=0)
fleets = lo.generate("reclaim", "messy-dist", servers=[100, 520], seeds=range(5))
one: lo.network.Instance = lo.generate("network", "epoch", jobs=5, seed=3)
also_listed: list[lo.reclaim.Instance] = [*fleets, *lo.generate("reclaim", "grid", servers=(4, 9))]
lo.export_model(fleet, "model.mps")
runs = lo.simulate("lyra-paper", schemes=["fifo", {"name": "lyra"}], seeds=range(3))
waits = runs.summary.queue_mean_s + runs.jobs.queued_s.mean() + runs.series.queued_jobs.mean()
runs.plot().savefig("users.png")
study = lo.load_study("results/reclaim-gap")
any_name: str = lo.load("any.json").name
workers: lo.allocation.Solution = lo.solve(
    lo.allocation.Instance(gpus=8, jobs=[{"id": "j", "min_workers": 1, "max_workers": 2}])
).solution
gangs = lo.network.Solution(placements=[{"job": "j", "tier": "machine", "gpus": {"m": 1}}])
first: lo.network.GangPlacement = gangs.placements[0]

fleet.servers[0].gpu  # wrong: attr-defined
fleet.reclaim_servers = 2  # wrong: misc
answer.solution.server  # wrong: union-attr
lo.reclaim.Instance(servers=[8], jobs=[], reclaim_servers=1)  # wrong: list-item
lo.reclaim.Instance(server=[], jobs=[], reclaim_servers=1)  # wrong: call-arg
lo.solve("fleet.json")  # wrong: arg-type
lo.load("fleet.json", str)  # wrong: type-var
lo.simulate("lyra-paper", scheme="fifo")  # wrong: call-arg
runs.sumary  # wrong: attr-defined
fleets[0].gpus  # wrong: attr-defined
lo.sovle(fleet)  # wrong: attr-defined
lo.solve(fleet, start=lo.network.Solution([]))  # wrong: misc
lo.verify(fleet, lo.network.Solution([]))  # wrong: misc
lo.plot_progress(fleet)  # wrong: arg-type
fleet.to_frames()[0]  # wrong: index
"""


@pytest.mark.slow
def test_a_user_s_script_passes_mypy(tmp_path):
    """Strictly, and what is wrong in it is found where it stands: types are no mere Any."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    settings = tmp_path / "mypy.ini"
    settings.write_text("[mypy]\nstrict = True\nshow_column_numbers = False\n")
    found, complaints, _ = api.run(
        [
            *("--config-file", str(settings), "--cache-dir", str(tmp_path)),
            *("--python-executable", sys.executable, str(script)),
        ]
    )
    assert complaints == ""
    errors = re.findall(r"script\.py:(\d+): error: .*\[([\w-]+)\]", found)
    lines = enumerate(SCRIPT.splitlines(), 1)
    expected = [(number, line.partition("# wrong: ")[2]) for number, line in lines if "# w" in line]
    assert [(int(number), code) for number, code in errors] == expected, found
