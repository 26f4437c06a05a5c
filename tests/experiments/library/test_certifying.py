"""Certificates are added to the record of a day, once, and what else is known stays as it is."""

from dataclasses import replace

import pytest

from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import UserError
from lyra_opt.core.fields import written
from lyra_opt.experiments.library.building import certify
from lyra_opt.instances.library.documents import Proof
from lyra_opt.instances.library.shelf import Library, verified
from tests.instances.library.parts import part_of_library

SHARES = "offline-v1-n10-rounds10-gpus16of4-release50-throughput-seed0"
SCHEDULE = "hadar-motivating"
FLEET = "lyra-figure-5"
DAY, LATER = "2026-12-01", "2026-12-02"


@pytest.fixture
def without(tmp_path):
    """Return a library of three proved optima, none of which has a certificate."""
    shelf = part_of_library(tmp_path / "library", SHARES, SCHEDULE, FLEET)
    for file in (shelf.folder / "proofs").iterdir():
        file.unlink()
    first = shelf.records[0]
    bare = (
        replace(best, proof=Proof.TWO_METHODS, proved_with=("a", "b"), proof_file=None)
        for best in first.instances
    )
    for file in (shelf.folder / "records").iterdir():
        file.unlink()
    text = format_document(written(replace(first, date="2026-11-30", instances=tuple(bare))))
    (shelf.folder / "records" / "best-known-2026-11-30.json").write_text(text)
    return Library(shelf.folder)


def certified(shelf, date, *names):
    entries = [shelf.entry(name) for name in names or shelf.entries]
    return list(certify(shelf, entries, date, time_limit_s=10))


def test_what_has_proofs_gets_certificates_and_the_rest_stays(without):
    """Of shares, fleets and schedules in rounds. The record before is as it was."""
    before = (without.folder / "records" / "best-known-2026-11-30.json").read_bytes()
    lines = certified(without, DAY)
    assert [line.partition(":")[0] for line in lines[:-1]] == [FLEET, SCHEDULE, SHARES]
    shelf = Library(without.folder)
    assert (shelf.folder / "records" / "best-known-2026-11-30.json").read_bytes() == before
    assert [best.id for best in shelf.records[-1].instances] == [FLEET, SCHEDULE, SHARES]
    for name in (FLEET, SCHEDULE, SHARES):
        old, new = without.known[name], shelf.known[name]
        assert new == replace(old, proof=Proof.CERTIFICATE, proof_file=f"{name}.proof.json.gz")
        assert verified(shelf, name).faults == ()


def test_a_second_time_nothing_is_done(without):
    """Nor on a later day."""
    certified(without, DAY)
    kept = {path: path.read_bytes() for path in without.folder.rglob("*") if path.is_file()}
    assert certified(Library(without.folder), DAY) == []
    assert certified(Library(without.folder), LATER) == []
    assert {p: p.read_bytes() for p in without.folder.rglob("*") if p.is_file()} == kept


def test_a_record_of_the_day_keeps_what_it_has(without):
    """Whoever wrote it; and one of an earlier day would not count."""
    certified(without, DAY, FLEET)
    certified(Library(without.folder), DAY, SHARES)
    shelf = Library(without.folder)
    assert len(shelf.records) == 2
    assert [best.id for best in shelf.records[-1].instances] == [FLEET, SHARES]
    with pytest.raises(UserError, match=f"must not be before the last record, {DAY}"):
        certified(shelf, "2026-11-30")


def test_what_is_open_gets_none(without):
    """A certificate says that the best known is an optimum."""
    file = without.folder / "records" / "best-known-2026-11-30.json"
    text = file.read_text()
    assert text.count('"proof": "two methods"') == 3
    file.write_text(text.replace('"proof": "two methods"', '"proof": "none"'))
    assert certified(Library(without.folder), DAY) == []
