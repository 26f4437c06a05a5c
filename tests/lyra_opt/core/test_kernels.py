"""Kernels: two ways to run one function, and under which name its machine code is kept."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import lyra_opt
from lyra_opt.core.kernels import Kernel, _announce_compiling, kernel
from tests.tables import tables

OFFSET = 1


@kernel
def shifted(value):
    """Return the value a little further on."""
    return value + OFFSET


@kernel
def shifted_sum(values):
    """Return the sum of shifted values; calls another kernel."""
    total = 0
    for value in values:
        total += shifted(value)
    return total


@kernel
def shifted_twice(values):
    """Return a sum of shifted values; calls `shifted` itself and through `shifted_sum`."""
    return shifted(shifted_sum(values))


class Pair(NamedTuple):
    """A number and an array, which kernels add up."""

    first: int
    rest: Any


@kernel
def pair_sum(pair):
    """Return the sum of a number and of an array, and the array."""
    return pair.first + shifted_sum(pair.rest), pair.rest


def test_fields_of_named_tuples_are_lists_when_interpreted_and_arrays_when_compiled():
    """What is returned shows in which form it came in."""
    pair = Pair(5, np.arange(3))
    total, rest = pair_sum.run(pair, work=1, largest=10)
    assert (total, rest) == (11, [0, 1, 2])
    total, rest = pair_sum.run(pair, work=10**6, largest=10)
    assert total == 11
    assert rest is pair.rest
    total, rest = pair_sum.compiled(Pair(5, [0, 1, 2]))  # as an interpreted kernel left it
    assert total == 11
    assert isinstance(rest, np.ndarray)


def test_small_work_is_interpreted_on_lists_and_large_work_compiled_on_arrays():
    values = np.arange(5)
    assert shifted_sum.run(values, work=1, largest=10) == 15
    assert shifted_sum.run(values, work=10**6, largest=10) == 15
    large = values.astype(object) * 2**61
    assert shifted_sum.run(large, work=10**6, largest=2**65) == 10 * 2**61 + 5


def test_cached_code_is_named_after_all_that_it_was_linked_with(monkeypatch):
    """Numba compares the age of one file only: a change elsewhere must give another name."""
    before = shifted_sum._digest("")
    assert shifted_sum._digest("first, rest") != before  # the order of a named tuple's fields
    monkeypatch.setitem(shifted._function.__globals__, "OFFSET", 2)
    assert shifted_sum._digest("") != before


def test_compiling_is_announced_once_and_not_where_the_cache_has_the_kernel(
    monkeypatch, tmp_path, caplog
):
    """A called kernel is compiled once, however many kernels call it, and is not kept itself."""
    numba = pytest.importorskip("numba")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    announced = []
    for _ in range(2):
        _announce_compiling.cache_clear()
        caplog.clear()
        for function in (shifted_twice, shifted_sum):
            assert Kernel(function._function).compiled(np.arange(3)) in (6, 7)
        announced.append(len(caplog.records))
    assert announced == [1, 0]
    kept = {path.name.partition("-")[0] for path in tmp_path.rglob("*.nbi")}
    names = {name.rpartition(".")[2].rpartition("_")[0] for name in kept}
    assert names == {"shifted_twice", "shifted_sum"}


def run_python(*arguments, **given):
    """Return how a fresh interpreter ended, which must be well."""
    command = [sys.executable, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, **given)


TABLES = tables(__file__)
COMPILE_RECLAIM = TABLES["compile_reclaim"]


@pytest.mark.slow
def test_set_up_compiles_all_that_an_exact_proof_needs(tmp_path):
    """`make .venv/.ready` compiles, so that the first `solve --solver exact` need not."""
    cache = {"NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    where = {"cwd": tmp_path, "env": os.environ | cache}
    assert "compiling inner loops" in run_python("-c", COMPILE_RECLAIM, **where).stderr
    for words in (
        "generate reclaim --family messy-dist --servers 200 --out .",
        "solve messy-dist-v1-s200-k60-seed0.json --solver exact",
    ):
        done = run_python("-m", "lyra_opt", *words.split(), **where)
    assert done.stderr == ""


PRINT_DIGESTS = TABLES["print_digests"]


def modules_with_kernels():
    """Return the modules of the package that define one."""
    root = Path(lyra_opt.__file__).parent
    return sorted(
        ".".join(path.relative_to(root.parent).with_suffix("").parts)
        for path in root.rglob("*.py")
        if "\n@kernel\n" in path.read_text()
    )


def test_every_process_finds_what_another_has_cached():
    """Names of all kernels: they must not hold addresses, nor depend on how strings are hashed."""
    modules = modules_with_kernels()
    assert {"lyra_opt.allocation.knapsack.kernels", "lyra_opt.reclaim.exact.tree.kernel"} <= set(
        modules
    )
    (digests,) = {
        run_python("-c", PRINT_DIGESTS, *modules, env={"PYTHONHASHSEED": seed}).stdout
        for seed in ("1", "2")
    }
    assert {line.split()[0] for line in digests.splitlines()} == set(modules)


def test_a_kernel_keeps_name_and_docstring():
    assert isinstance(shifted, Kernel)
    assert (shifted.__name__, shifted.__doc__) == (
        "shifted",
        "Return the value a little further on.",
    )


@pytest.mark.parametrize(
    ("cause", "raised"), [(KeyboardInterrupt(), KeyboardInterrupt), (None, SystemError)]
)
def test_an_interrupt_within_machine_code_is_one(monkeypatch, cause, raised):
    """Numba looks out for no signal while it makes tuples, and says that it failed."""

    def interrupted(*_arguments):
        raise SystemError("returned a result with an exception set") from cause

    one = Kernel(lambda value: value)
    monkeypatch.setattr(one, "_compiled", interrupted)
    with pytest.raises(raised):
        one.compiled(1)
