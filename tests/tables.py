"""Tables of test cases and example files, kept beside the tests that read them."""

import tomllib
from pathlib import Path

from lyra_opt.instances.family import generate


def tables(file, name=None):
    """Return the TOML file beside a test module, such as ``refused.toml`` for ``test_refused.py``.

    `name` overrides the file's name; it has no ending.
    """
    path = Path(file)
    name = name or path.stem.removeprefix("test_")
    return tomllib.loads(path.with_name(f"{name}.toml").read_text(encoding="utf-8"))


def beside(file, name):
    """Return the text of the example file `name` in the folder of a test module."""
    return Path(file).with_name(name).read_text(encoding="utf-8")


def generated(families, **shared_by_all):
    """Return the instances of each problem, from pairs of shared parameters and those of each."""
    return {
        problem: [
            generate(problem, **shared_by_all, **shared, **own)
            for shared, of_each in pairs
            for own in of_each
        ]
        for problem, pairs in families.items()
    }
