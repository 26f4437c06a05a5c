"""What `import lyra_opt as lo` gives."""

import subprocess
import sys

import pytest

import lyra_opt as lo


def test_every_word_is_there():
    """Every listed word can be used, and completion shows the same words."""
    assert set(dir(lo)) == set(lo.__all__)
    for word in lo.__all__:
        assert getattr(lo, word) is not None


def test_other_words_are_unknown():
    """As in any module."""
    with pytest.raises(AttributeError, match="no attribute 'sovle'"):
        lo.sovle  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("lyra-figure-5", "reclaim {}: semantics rigid, reclaim servers 2, 6 servers, 4 jobs"),
        ("lyra-table-2", "allocation {}: objective mean_jct, GPUs 8, 2 jobs"),
        ("hadar-motivating", "heterogeneous {}: objective mean_jct, "),
        ("hurt-first", "network {}: objective epoch, "),
    ],
)
def test_an_instance_prints_as_its_sizes(name, text):
    """In one line, not as a wall of objects; `repr` still has them."""
    instance = lo.load(name)
    assert str(instance).startswith(text.format(f"instance {name}"))
    assert str(instance).endswith("jobs")
    assert repr(instance).startswith("Instance(name=")


def test_nothing_heavy_is_imported():
    """`import lyra_opt` loads the table of built-in components and nothing else."""
    code = "import sys; old = set(sys.modules); import lyra_opt; print(*set(sys.modules) - old)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = found.stdout.split()
    others = [name for name in loaded if name.partition(".")[0] not in sys.stdlib_module_names]
    assert set(others) == {
        "lyra_opt",
        "lyra_opt.core",
        "lyra_opt.core.built_in",
        "lyra_opt.registry",
    }


def test_a_package_of_the_user_may_have_any_name(tmp_path):
    """Such as `experiments`, which many have beside their scripts."""
    for name in ("experiments", "instances", "formulations", "paper_figures"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise RuntimeError('not this one')")
    for words in (["--version"], ["solvers", "--problem", "reclaim"], ["scenarios", "list"]):
        command = [sys.executable, "-m", "lyra_opt", *words]
        subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
