"""``lyra-opt generate``: the files it writes, and what it refuses before writing any."""

import gzip
import subprocess
import sys

import pytest

from lyra_opt.__main__ import main
from lyra_opt.core.loading import load_instance
from lyra_opt.core.problem import problems
from lyra_opt.instances import command
from lyra_opt.instances.family import family_names, find_family, generate
from tests.tables import tables

TABLES = tables(__file__)


def run(words, *more, problem="reclaim"):
    return main(["generate", problem, *words.split(), *map(str, more)])


@pytest.fixture
def out(tmp_path):
    return tmp_path / "made" / "instances"


@pytest.mark.parametrize("problem", TABLES["options"])
def test_options_reach_the_family(out, capsys, problem):
    words, name, parameters = TABLES["options"][problem]
    assert run(words, "--out", out, problem=problem) == 0
    (path,) = capsys.readouterr().out.splitlines()
    assert path == str(out / f"{name}.json")
    assert load_instance(path).instance == generate(problem, **parameters)


def test_gzip_has_no_time_stamp(out):
    words = ("--family span --servers 12 --reclaim 3", "--out", out)
    assert run(*words) == run(*words, "--gzip") == 0
    plain = (out / "span-v1-s12-k3-seed0.json").read_bytes()
    compressed = (out / "span-v1-s12-k3-seed0.json.gz").read_bytes()
    assert gzip.decompress(compressed) == plain
    assert compressed[4:8] == bytes(4)
    assert run(*words, "--gzip") == 0
    assert (out / "span-v1-s12-k3-seed0.json.gz").read_bytes() == compressed


def test_later_instances_are_generated_before_the_first_is_written(out, monkeypatch):
    span = find_family("reclaim", "span")

    class BreaksLater:
        name = "breaks-later"

        def is_seeded(self, parameters):
            return True

        def known_optimum(self, parameters):
            return None

        def generate(self, parameters, seed):
            if seed == 2:
                raise RuntimeError
            return span.generate({"servers": 3, "reclaim": 1}, seed)

    monkeypatch.setattr(
        "lyra_opt.instances.family.find_family", lambda problem, name: BreaksLater()
    )
    words = ("--family x --reclaim 1 --count 3", "--out", out)
    assert run(*words) == 1
    assert not out.exists()
    monkeypatch.setattr(command, "LARGEST_PENDING_BYTES", 1)  # as if memory were short
    assert run(*words) == 1
    assert len(list(out.iterdir())) == 2


@pytest.mark.parametrize("problem", problems())
def test_families_are_listed(capsys, problem):
    """The command without options lists every family, one per line that begins with its name."""
    assert run("", problem=problem) == 0
    listed = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line[0] != " "]
    assert listed == list(family_names(problem))


def test_parser_is_built_without_numpy():
    code = "import sys, lyra_opt.__main__ as m; m.make_parser(); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
