"""Study files: what they mean, and how malformed ones are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from experiments.study import load_study, servers_of_share
from experiments.trace import Trace, find_trace
from lyra_opt.__main__ import main
from lyra_opt.errors import InputError, UserError
from tests.experiments.conftest import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STUDIES = sorted((REPOSITORY / "experiments" / "studies").glob("*.toml"))

MALFORMED = {
    "unknown key": (("seeds = 2", "seeds = 2\nseed = 2"), "seed is 2: unknown key"),
    "unknown key in a block": (
        ("servers = [10", "sizes = [1]\nservers = [10"),
        "instances[0].sizes",
    ),
    "wrong format": (("lyra-opt/study", "lyra-opt/reclaim"), "format is"),
    "wrong version": (("version = 1", "version = 2"), "version is 2"),
    "missing name": (('name = "tiny"\n', ""), "name is missing"),
    "name that leaves the folder": (('"tiny"', '"../tiny"'), "name is"),
    "unknown problem": (('problem = "reclaim"', 'problem = "packing"'), "problem is"),
    "unknown family": (('"rnd-trace"', '"rnd-tracer"'), "instances[0].families[0]"),
    "unknown solver": (('"scf"', '"scff"'), "solvers[0].names[1]"),
    "solver twice": (('"scf"', '"lyra-greedy"'), "solvers[0].names[1]"),
    "solver twice in two blocks": (
        ('"scf"]', '"scf"]\n[[solvers]]\nnames = ["scf"]'),
        "solvers[1].names",
    ),
    "no solvers": (('[[solvers]]\nnames = ["lyra-greedy", "scf"]', ""), "solvers is missing"),
    "no instances": (('families = ["rnd-trace"]', "families = []"), "instances[0].families is []"),
    "families as text": (('["rnd-trace"]', '"rnd-trace"'), "instances[0].families"),
    "share above 1": (("[0.1, 0.3]", "[0.1, 1.5]"), "instances[0].reclaim_shares[1] is 1.5"),
    "share of 0": (("[0.1, 0.3]", "[0.0]"), "instances[0].reclaim_shares[0] is 0.0"),
    "share that is NaN": (("[0.1, 0.3]", "[nan]"), "instances[0].reclaim_shares[0] is NaN"),
    "share as text": (("[0.1, 0.3]", '["0.1"]'), "instances[0].reclaim_shares[0]"),
    "share twice": (("[0.1, 0.3]", "[0.1, 0.10]"), "instances[0].reclaim_shares[1]"),
    "shares of one N_R": (
        ("[0.1, 0.3]", "[0.1, 0.11]"),
        'instances[0] is "rnd-trace servers=10 reclaim_servers=1 seed=0": must not occur twice',
    ),
    "shares without servers": (("servers = [10, 20]\n", ""), "instances[0].servers"),
    "shares and counts": (
        ("servers = [10", "reclaim_servers = [1]\nservers = [10"),
        "instances[0] is an object: must have either",
    ),
    "N_R above the fleet": (
        ("reclaim_shares = [0.1, 0.3]", "reclaim_servers = [11]"),
        "at most the 10 servers on loan",
    ),
    "servers as a float": (("[10, 20]", "[10.0]"), "instances[0].servers[0] is 10.0"),
    "servers as a flag": (("[10, 20]", "[true]"), "instances[0].servers[0] is true"),
    "servers of 0": (("[10, 20]", "[0]"), "instances[0].servers[0] is 0"),
    "seeds of 0": (("seeds = 2", "seeds = 0"), "seeds is 0"),
    "seeds as text": (("seeds = 2", 'seeds = "2"'), "seeds is"),
    "seed twice": (("seeds = 2", "seeds = [1, 1]"), "seeds[1] is 1"),
    "too many seeds": (("seeds = 2", "seeds = 1000000000"), "runs in all"),
    "time limit of 0": (("5.0", "0.0"), "time_limit_s is 0.0"),
    "infinite time limit": (("5.0", "inf"), "time_limit_s is Infinity"),
    "certify as a number": (("certify = true", "certify = 1"), "certify is 1"),
    "parameter that is an axis": (
        ("servers = [10", "parameters = { reclaim = 1 }\nservers = [10"),
        "instances[0].parameters.reclaim is 1: is an axis of the study",
    ),
    "group with control characters": (
        ('group = "realistic"', 'group = "red\\u001b"'),
        "must be printable text on one line",
    ),
    "parameter of no family": (
        ("servers = [10", "parameters = { colour = 3 }\nservers = [10"),
        "colour is no parameter",
    ),
    "parameter that is a list": (
        ("servers = [10", "parameters = { semantics = [1] }\nservers = [10"),
        "instances[0].parameters.semantics",
    ),
    "servers for a family sized by N_R": (('"rnd-trace"', '"decoy"'), "--servers is refused"),
    "a snapshot without its trace": (('"rnd-trace"', '"snapshot"'), "--trace is required"),
    "no TOML": (("[[solvers]]", "[[solvers"), "is not valid TOML"),
    "key twice": (("seeds = 2", "seeds = 2\nseeds = 3"), "is not valid TOML"),
    "nested without end": (("seeds = 2", f"seeds = {'[' * 50_000}"), "tiny.toml: is"),
}


@pytest.mark.parametrize(("replacement", "message"), MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed_study_is_refused_in_one_line(
    replacement: tuple[str, str],
    message: str,
    write_study: Callable[..., Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    study = write_study(replacement)
    results = tmp_path / "results"
    assert main(["study", str(study), "--out", str(results)]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"lyra-opt: error: {study}: ")
    assert message in error
    assert error.count("\n") == 1
    assert not results.exists()


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a = 1\n" * 300_000])
def test_file_that_is_no_text_of_a_study_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"study\.toml: "):
        load_study(path)


def test_runs_are_families_by_servers_by_shares_by_seeds(write_study: Callable[..., Path]) -> None:
    study = load_study(write_study())
    assert [cell.key for cell in study.cells] == [
        f"rnd-trace servers={servers} reclaim_servers={count} seed={seed}"
        for servers, counts in ((10, (1, 3)), (20, (2, 6)))
        for count in counts
        for seed in (0, 1)
    ]
    assert [found.label for found in study.configurations] == ["lyra-greedy", "scf"]
    assert all(found.certify and found.time_limit_s == 5.0 for found in study.configurations)


def test_family_that_draws_nothing_runs_once(write_study: Callable[..., Path]) -> None:
    study = load_study(
        write_study(
            ('"rnd-trace"', '"decoy"'),
            ("servers = [10, 20]\nreclaim_shares = [0.1, 0.3]", "reclaim_servers = [1, 2]"),
        )
    )
    assert [cell.key for cell in study.cells] == [
        "decoy reclaim_servers=1 seed=0",
        "decoy reclaim_servers=2 seed=0",
    ]


def test_several_time_limits_are_several_configurations(write_study: Callable[..., Path]) -> None:
    study = load_study(write_study(('"scf"]', '"scf"]\ntime_limit_s = [0.5, 2]')))
    assert [(found.label, found.time_limit_s) for found in study.configurations] == [
        ("lyra-greedy within 0.5 s", 0.5),
        ("lyra-greedy within 2.0 s", 2.0),
        ("scf within 0.5 s", 0.5),
        ("scf within 2.0 s", 2.0),
    ]


@pytest.mark.parametrize(
    ("share", "servers", "reclaimed"),
    [
        (0.15, 10, 2),
        (0.3, 5, 2),
        (0.145, 100, 15),  # 14.499999999999998 in floats
        (0.29, 50, 15),  # 14.499999999999998 in floats
        (0.1, 4, 1),
        (0.001, 4, 1),
        (1.0, 7, 7),
    ],
)
def test_shares_round_half_up_and_give_at_least_one(
    share: float, servers: int, reclaimed: int
) -> None:
    assert servers_of_share(share, servers) == reclaimed


def test_meaning_ignores_layout_but_nothing_that_is_run(write_study: Callable[..., Path]) -> None:
    meaning = load_study(write_study()).meaning_hash()
    assert load_study(write_study(("seeds = 2", "seeds  =  2 # two"))).meaning_hash() == meaning
    assert load_study(write_study(("seeds = 2", "seeds = [0, 1]"))).meaning_hash() == meaning
    for change in (("seeds = 2", "seeds = 3"), ("5.0", "6.0"), ("0.3]", "0.4]"), (', "scf"', "")):
        assert load_study(write_study(change)).meaning_hash() != meaning


def test_trace_that_no_family_reads_is_refused(write_study: Callable[..., Path]) -> None:
    with pytest.raises(UserError, match="reads a trace"):
        load_study(write_study(), Trace("trace.csv", "0"))


def test_trace_is_found_in_the_folder_of_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LYRA_OPT_TRACES", raising=False)
    trace = tmp_path / "trace.csv"
    trace.write_text("job_id,submit_time_s,duration_s,gpus\nj,0,1,1\n")
    with pytest.raises(InputError, match="LYRA_OPT_TRACES"):
        find_trace("trace.csv")
    monkeypatch.setenv("LYRA_OPT_TRACES", str(tmp_path))
    found = find_trace("trace.csv")
    assert (found.name, found.path) == ("trace.csv", str(trace))
    trace.write_text("job_id\n")
    with pytest.raises(InputError, match="row 1: column submit_time_s is missing"):
        find_trace("trace.csv")


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_studies_of_the_repository_are_valid(path: Path) -> None:
    trace = Trace("trace.csv", "0") if "snapshot" in path.name else None
    study = load_study(path, trace)
    assert study.name == path.stem
    references = {found.solver for found in study.configurations if found.reference}
    assert len(references) >= 2, "two methods that share no code must prove each optimum"
