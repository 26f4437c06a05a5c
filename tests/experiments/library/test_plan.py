"""Plans are read strictly, and the library that comes along is what its plan says."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lyra_opt.core.errors import InputError, UserError
from lyra_opt.experiments.library.pages import pages
from lyra_opt.experiments.library.plan import read_plan, write_catalogue
from lyra_opt.instances.library import library
from lyra_opt.instances.library.documents import Proof

FILES = [library().folder / "plans" / f"{each.name}.toml" for each in library().catalogues]
PLANS = [read_plan(path) for path in FILES]
PLAN = FILES[0]
DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture
def small():
    """Return the plan with no instance but those of two small families."""
    plan = read_plan(PLAN)
    families = [each for each in plan.families if each.family in ("decoy", "net")]
    return replace(plan, families=families, searches=(), captures=(), snapshots=(), written=())


def test_every_page_is_of_one_plan():
    named = [page.name for plan in PLANS for page in plan.pages]
    assert sorted({entry.page for entry in library().entries.values()}) == sorted(named)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_every_page_is_what_catalogue_and_record_say(plan):
    for path, text in pages(plan, library(), DOCS).items():
        assert path.read_text(encoding="utf-8") == text, f"{path.name}: make library"
    assert all((DOCS / "library" / f"{page.name}.png").exists() for page in plan.pages)


def test_every_variant_has_methods():
    for plan, catalogue in zip(PLANS, library().catalogues, strict=True):
        for entry in catalogue.instances:
            assert plan.methods_for(entry.problem, entry.variant).exact


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_wording_replaces_features_of_the_catalogue(plan):
    features = {entry.features for entry in library().entries.values()}
    assert set(plan.wording) <= features


def test_every_proved_instance_without_a_certificate_has_a_reason():
    named = [
        name for plan in PLANS for names in plan.without_certificate.values() for name in names
    ]
    proofs = {name: best.proof for name, best in library().known.items()}
    bare = [name for name in proofs if proofs[name] in (Proof.TWO_METHODS, Proof.ONE_METHOD)]
    assert sorted(named) == sorted(bare)


def test_a_plan_that_is_wrong_is_refused(write):
    path = write(PLAN.read_text().replace('family = "decoy"', 'famly = "decoy"'), "plan.toml")
    with pytest.raises(InputError, match=r"plan\.toml: families\[\d+\]\.famly is .*did you mean"):
        read_plan(path)


def test_a_catalogue_is_made_once_and_then_frozen(small, tmp_path):
    """It is the part of the one that comes along; another plan does not change it."""
    folder = tmp_path / "library"
    (folder / "catalogues").mkdir(parents=True)
    path = write_catalogue(small, folder, tmp_path)
    made = json.loads(path.read_text())["instances"]
    whole = json.loads((library().folder / "catalogues" / path.name).read_text())["instances"]
    assert len(made) == 6
    assert [each for each in whole if each["id"] in {one["id"] for one in made}] == made
    assert write_catalogue(small, folder, tmp_path) == path
    other = replace(small, families=small.families[:1])
    with pytest.raises(UserError, match=r"library-2026\.1\.json: must not change"):
        write_catalogue(other, folder, tmp_path)
    with pytest.raises(UserError, match="another edition has an instance with this id"):
        write_catalogue(replace(small, name="library-2026.2"), folder, tmp_path)
