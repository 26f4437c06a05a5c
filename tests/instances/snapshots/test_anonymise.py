"""Anonymised snapshots reveal nothing, and give the same plans up to names."""

import json
from pathlib import Path

import pytest

from lyra_opt.core.errors import UserError
from lyra_opt.experiments.planning import asking
from lyra_opt.experiments.planning.planning import plan
from lyra_opt.instances.snapshots.anonymise import NEWEST, Pseudonyms, anonymised
from lyra_opt.instances.snapshots.reader import SnapshotFile
from lyra_opt.instances.snapshots.reading import read_file, read_snapshot, reader_of
from lyra_opt.instances.snapshots.snapshot import RESERVED
from tests.instances.snapshots.objects import custom, listed, pod

REAL = Path(__file__).parent / "kubernetes_1_36" / "everything.json.gz"

PUBLIC = {
    *("NVIDIA-H100-80GB-HBM3", "NVIDIA-A100-SXM4-40GB", "Equal", "Exists", "In", "NoSchedule"),
    *("NoExecute", "Running", "Pending", "Succeeded", "True", "Ready", "Always", "Never", "rack"),
    *("PreemptLowerPriority", "List", "v1", "true", "false", "metadata.name", "cpu", "memory"),
}
"""Words of the API and types of GPUs, which stay."""


def texts(value):
    """Yield all keys and texts of a JSON document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list | tuple):
        for each in (*value, *value.values()) if isinstance(value, dict) else value:
            yield from texts(each)


def names_in(document):
    """Return the names, namespaces and label values of the original objects."""
    found = set()
    for item in document["items"]:
        metadata = item["metadata"]
        found |= {metadata["name"], metadata.get("namespace"), metadata.get("uid")}
        found |= set((metadata.get("labels") or {}).values())
        found |= {each["name"] for each in metadata.get("ownerReferences") or ()}
    return {name for name in found - PUBLIC - {None} if not name.isdecimal()}


@pytest.fixture(scope="module")
def real():
    """Return the real snapshot, what is left of it, and the table of pseudonyms."""
    files = [read_file(REAL)]
    document, table = anonymised(files, reader_of(files))
    return json.loads(files[0].content), document, table


def test_nothing_of_the_original_is_left(real):
    original, document, _ = real
    left = set(texts(document))
    assert not names_in(original) & left
    text = json.dumps(document)
    for name in names_in(original):
        assert len(name) < 4 or name not in text
    assert "registry.example" not in text
    assert "example.com" not in text


def test_plans_are_the_same_up_to_names(real, write):
    _, document, table = real
    hidden = write(json.dumps(document), "hidden.json")
    before, after = read_snapshot([REAL]), read_snapshot([hidden])
    for question in ({"nodes": 3}, {"nodes": 6}, {"names": ["gpu-04"], "nodes": 2}):
        names = [table[name] for name in question.get("names", ())]
        one = plan(before, asking.drain(**question))
        two = plan(after, asking.drain(**{**question, "names": names}))
        assert one.answer.measures["terms"] == two.answer.measures["terms"]
        assert [table[name] for name in one.nodes] == list(two.nodes)
    wanted = {"pods": 2, "request": {"gpu": 8}, "level": "rack", "type": "a100"}
    one = plan(before, asking.fit(before, priority="p2", **wanted))
    two = plan(after, asking.fit(after, priority=table["p2"], **wanted))
    assert one.answer.status is two.answer.status
    assert [table.get(each.owner.name) for each in one.blocking] == [
        each.owner.name for each in two.blocking
    ]


def test_pseudonyms_sort_as_the_names_and_hold_references(real):
    _, _, table = real
    names = sorted(table)
    assert [table[name] for name in names] == sorted(table.values())


def test_times_are_shifted_and_their_differences_stay():
    document = [{"startTime": f"2026-11-25T00:0{minute}:00Z"} for minute in (0, 1)]
    found = [each["startTime"] for each in Pseudonyms(document).applied(document)]
    assert found == ["1999-12-31T23:59:00Z", f"{NEWEST:%Y-%m-%dT%H:%M:%SZ}"]


def test_reservations_of_plans_stay():
    document = {"taints": [{"key": RESERVED, "value": "secret", "effect": "NoSchedule"}]}
    (taint,) = Pseudonyms(document).applied(document)["taints"]
    assert taint == {"key": RESERVED, "value": "x0", "effect": "NoSchedule"}


def test_unknown_fields_and_kinds_vanish():
    secret = pod("secret-pod", containers=[{"image": "secret", "env": [{"value": "secret"}]}])
    secret["metadata"]["managedFields"] = ["secret"]
    content = json.dumps(listed(secret, custom("v1 Secret secret"))).encode()
    files = [SnapshotFile("x.json", content)]
    document, _ = anonymised(files, reader_of(files))
    assert len(document["items"]) == 1
    assert "secret" not in json.dumps(document)


def test_an_unknown_reader_is_refused():
    with pytest.raises(UserError, match="snapshot reader"):
        reader_of([SnapshotFile("x.json", b"{}")], "kuberneets")
