"""BibTeX entries are complete, and the same with the same version wherever they stand."""

import re
import tomllib
from pathlib import Path

import lyra_opt as lo

CITATIONS = Path(lo.__file__).parent / "commands/citations.toml"
ROOT = Path(__file__).parents[2]
ENTRY = re.compile(r"^@\w+\{(\w+),\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def entries(page):
    return dict(ENTRY.findall((ROOT / page).read_text()))


def test_entries_agree_with_one_another_and_with_the_citation_file():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    known, citation = entries("docs/cite.md"), (ROOT / "CITATION.cff").read_text()
    for page in ("README.md", "docs/library.md"):
        assert entries(page).items() <= known.items(), page
        assert entries(page), page
    for text in (known["lyra_opt"], known["lyra_opt_library"]):
        assert re.findall(r"\b\d+\.\d+\.\d+\b", text) == [version]
    assert re.findall(r"^version: (.*)$", citation, re.MULTILINE) == [version]
    titles = [re.search(r"title = \{(.*)\}", text)[1] for text in known.values()]
    assert not any(re.search(r"(?<!\{)\b(GPU|DNN|Lyra|Hadar|lyra-opt)\b", each) for each in titles)
    titles = [re.sub("[{}]", "", each) for each in titles]
    assert set(re.findall(r'title: "(.*)"', citation)) <= set(titles)
    assert dict(ENTRY.findall(lo.cite("all"))) == known
    for used in tomllib.loads(CITATIONS.read_text())["use"]:
        names, keys = (", ".join(f"`{each}`" for each in used[of]) for of in ("names", "cite"))
        assert f"| {names} | {used['what']} | {keys} |\n" in (ROOT / "docs/cite.md").read_text()
        assert lo.cite(*used["names"], *used["names"]) == lo.cite(*used["cite"])
    for name, text in known.items():
        assert re.findall(r"^  (\w+) = ", text, re.MULTILINE)[:2] == ["author", "title"], name
        assert "year = " in text, name
        assert text.count("{") == text.count("}"), name
