"""What holds of every family: pinned bytes, names that tell the parameters, refused parameters."""

from __future__ import annotations

import hashlib

import pytest

from lyra_opt.core.documents import format_document
from lyra_opt.core.errors import UserError
from lyra_opt.core.problem import find_problem
from lyra_opt.instances.family import generate

FLEET = {"servers": 12, "reclaim": 3, "seed": 0}

# The first digits of the SHA-256 of the file, and what makes it.
GOLDEN = {
    "495311f9de313fc4": ("reclaim", "bf-trace", FLEET),
    "9f5fd31ee04c5a42": ("reclaim", "bf-dist", FLEET),
    "36232305e131efbd": ("reclaim", "rnd-trace", FLEET),
    "38f8e058c7c28c8a": ("reclaim", "rnd-dist", FLEET),
    "4348d7a145c14d18": ("reclaim", "messy-trace", FLEET),
    "bc660e6ea9e54ed1": ("reclaim", "messy-dist", FLEET),
    "533f178d872337b1": ("reclaim", "span", FLEET),
    "66ae3219a6001451": ("reclaim", "grid", FLEET),
    "ab414ca860e6c859": ("reclaim", "reg4", FLEET),
    "8a559ad41386962e": ("reclaim", "hyp8", FLEET),
    "6517caa1a1fb1aad": ("reclaim", "planted", FLEET),
    "7e47499cfa964fd7": ("reclaim", "messy-dist", {"servers": 520, "reclaim": 156, "seed": 1}),
    "843a1c568d2c8778": (
        "reclaim",
        "rnd-dist",
        {"servers": 12, "reclaim": 3, "seed": 5, "semantics": "interchangeable"},
    ),
    "9893e7ce1e420aac": (
        "reclaim",
        "grid",
        {"servers": 12, "reclaim": 3, "seed": 5, "off_loan_percent": 25},
    ),
    "39a27adbfd09637d": ("reclaim", "decoy", {"reclaim": 2}),
    "f73ee9094193d697": ("reclaim", "net", {"reclaim": 6}),
    "7efc165b14b77578": ("reclaim", "net-joined", {"reclaim": 6}),
    "ba5f8ccdfed334a4": ("allocation", "light", {"jobs": 8, "seed": 0}),
    "974891a97e060581": (
        "allocation",
        "light",
        {"jobs": 8, "seed": 3, "objective": "jct_reduction"},
    ),
    "f93221bc7609cb16": ("allocation", "load", {"jobs": 8, "seed": 0}),
    "1e1e5e46c918f4af": (
        "allocation",
        "load",
        {
            "jobs": 8,
            "seed": 5,
            "load_percent": 400,
            "release_percent": 150,
            "scaling_loss_percent": 20,
            "gpus_per_worker": "mixed",
        },
    ),
    "af011f86ccfd530e": (
        "allocation",
        "load",
        {
            "jobs": 300,
            "gpus": 4000,
            "objective": "jct_reduction",
            "gpus_per_worker": "mixed",
            "extra_workers": 8,
        },
    ),
    "67fc2685f087c062": ("allocation", "worst-case", {"jobs": 11}),
}


@pytest.mark.parametrize("sha256", GOLDEN)
def test_golden_bytes(sha256):
    problem, family, parameters = GOLDEN[sha256]
    instance = generate(problem, family, **parameters)
    text = format_document(find_problem(problem).instance_document(instance))
    # A change here breaks the promise that a seed gives the same bytes: raise the version too.
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == sha256


NAMES = {
    "messy-dist-v1-s20-k5-seed7": ("reclaim", {"servers": 20, "reclaim": 5, "seed": 7}),
    "grid-v1-s20-k5": ("reclaim", {"servers": 20, "reclaim": 5, "seed": 7}),
    "grid-v1-s20-k5-offloan5-seed7": (
        "reclaim",
        {"servers": 20, "reclaim": 5, "seed": 7, "off_loan_percent": 5},
    ),
    "span-v1-s20-k6-seed0": ("reclaim", {"servers": 20}),
    "span-v1-s20-k5-interchangeable50-seed0": (
        "reclaim",
        {"servers": 20, "reclaim": 5, "semantics": "interchangeable"},
    ),
    "decoy-v1-k3": ("reclaim", {"reclaim": 3, "seed": 7}),
    "net-joined-v1-k6": ("reclaim", {"reclaim": 6, "semantics": "rigid"}),
    "light-v1-n20-gpus64-seed7": ("allocation", {"jobs": 20, "seed": 7}),
    "light-v1-n20-gpus50-joint-seed0": (
        "allocation",
        {"jobs": 20, "gpus": 50, "objective": "joint"},
    ),
    "load-v1-n9-load100-seed0": ("allocation", {"jobs": 9}),
    "load-v1-n9-gpus64-release50-loss20-width4-extra3-two_phase-seed1": (
        "allocation",
        {
            "jobs": 9,
            "gpus": 64,
            "release_percent": 50,
            "scaling_loss_percent": 20,
            "gpus_per_worker": "4",
            "extra_workers": 3,
            "objective": "two_phase",
            "seed": 1,
        },
    ),
    "worst-case-v1-n9-extra7": ("allocation", {"jobs": 9}),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_tell_the_parameters(name):
    problem, parameters = NAMES[name]
    assert generate(problem, name.split("-v1")[0], **parameters).name == name


BAD_PARAMETERS = [
    ("reclaim", "nope", {"reclaim": 1}, "family 'nope': no such family of reclaim"),
    ("reclaim", "span", {"reclaim": 1, "colour": 1}, "colour is no parameter"),
    ("reclaim", "span", {"reclaim": 1}, "--servers is required by family span"),
    (
        "reclaim",
        "span",
        {"servers": 9, "reclaim": 1, "reclaim_percent": 10},
        "--reclaim-percent is 10: must not be given beside --reclaim",
    ),
    ("reclaim", "span", {"reclaim_percent": 10}, "a share of --servers, which is missing"),
    ("reclaim", "net", {"reclaim_percent": 10}, "is refused by family net, whose size"),
    ("reclaim", "span", {"servers": 9, "reclaim_percent": 101}, "from 1 to 100"),
    ("reclaim", "net", {}, "--reclaim is required by family net"),
    ("reclaim", "span", {"servers": 0, "reclaim": 0}, "--servers is 0: must be an integer"),
    ("reclaim", "span", {"servers": 8.0, "reclaim": 0}, "--servers is 8.0: must be an int"),
    ("reclaim", "span", {"servers": True, "reclaim": 0}, "--servers is true: must be an int"),
    ("reclaim", "span", {"servers": 100001, "reclaim": 0}, "from 1 to 100000"),
    ("reclaim", "span", {"servers": 9, "reclaim": -1}, "--reclaim is -1: must be"),
    ("reclaim", "span", {"servers": 9, "reclaim": 10}, "--reclaim is 10: must be at most the 9 se"),
    (
        "reclaim",
        "span",
        {"servers": 9, "reclaim": 9, "off_loan_percent": 20},
        "--reclaim is 9: must be at most the 8 servers on loan",
    ),
    ("reclaim", "span", {"servers": 9, "reclaim": 1, "seed": -1}, "--seed is -1"),
    ("reclaim", "span", {"servers": 9, "reclaim": 1, "seed": "x"}, '--seed is "x"'),
    ("reclaim", "span", {"servers": 9, "reclaim": 1, "semantics": "soft"}, "rigid, interch"),
    (
        "reclaim",
        "span",
        {"servers": 9, "reclaim": 1, "min_workers_percent": 50},
        "--min-workers-percent is 50: must not be given for --semantics rigid",
    ),
    ("reclaim", "span", {"servers": 9, "reclaim": 1, "trace": "t.csv"}, "--trace is refused by fa"),
    ("reclaim", "snapshot", {"servers": 9, "reclaim": 1}, "--trace is required by family snapshot"),
    (
        "reclaim",
        "snapshot",
        {"servers": 9, "reclaim": 1, "trace": "t", "load_percent": "fast"},
        "or trace",
    ),
    ("reclaim", "grid", {"servers": 13, "reclaim": 1}, "--servers is 13: must be a product"),
    ("reclaim", "grid", {"servers": 1, "reclaim": 1}, "--servers is 1: must be a product"),
    ("reclaim", "reg4", {"servers": 4, "reclaim": 1}, "must be at least 5 for family reg4"),
    ("reclaim", "hyp8", {"servers": 7, "reclaim": 1}, "must be at least 8 for family hyp8"),
    ("reclaim", "decoy", {"reclaim": 0}, "--reclaim is 0: must be an integer from 1 to 104"),
    ("reclaim", "decoy", {"reclaim": 105}, "from 1 to 104"),
    ("reclaim", "net", {"reclaim": 8}, "must be one less than a prime of at least 7"),
    ("reclaim", "net-joined", {"reclaim": 4}, "for family net-joined"),
    ("reclaim", "net", {"reclaim": 330}, "at most 100000 servers"),
    ("reclaim", "net", {"reclaim": 6, "servers": 55}, "--servers is refused by family net"),
    ("reclaim", "net", {"reclaim": 6, "semantics": "interchangeable"}, "--semantics is refused"),
    ("reclaim", "decoy", {"reclaim": 2, "off_loan_percent": 5}, "--off-loan-percent is refu"),
    ("allocation", "nope", {"jobs": 1}, "family 'nope': no such family of allo"),
    ("allocation", "load", {"jobs": 1, "servers": 1}, "servers is no parameter"),
    ("allocation", "load", {}, "--jobs is required by family load"),
    ("allocation", "load", {"jobs": 0}, "--jobs is 0: must be an integer from 1 to 100000"),
    ("allocation", "load", {"jobs": 1, "gpus": 9, "load_percent": 100}, "--load-percent is 100: m"),
    ("allocation", "load", {"jobs": 50, "gpus": 3}, "--gpus is 3: must be at least 4, which one o"),
    ("allocation", "load", {"jobs": 1, "gpus_per_worker": 1}, "--gpus-per-worker is 1: must be on"),
    ("allocation", "light", {"jobs": 9, "load_percent": 50}, "--load-percent is refused by family"),
    ("allocation", "light", {"jobs": 9, "release_percent": 50}, "all its jobs run from time 0"),
    ("allocation", "light", {"jobs": 9, "gpus": 46}, "--gpus is 46: must be from 18 to 45"),
    ("allocation", "worst-case", {"jobs": 1}, "--jobs is 1: must be at least 2"),
    ("allocation", "worst-case", {"jobs": 3, "extra_workers": 0}, "--extra-workers is 0: must be "),
    ("allocation", "worst-case", {"jobs": 3, "objective": "joint"}, "--objective is refused by fa"),
    ("network", "epoch", {}, "--jobs is required by family epoch"),
    ("network", "epoch", {"jobs": 0}, "--jobs is 0: must be an integer from 1"),
    ("network", "epoch", {"jobs": 3, "busy_percent": 101}, "--busy-percent is 101: must be an int"),
    ("network", "epoch", {"jobs": 3, "objective": "cost"}, '--objective is "cost": must be one of'),
    ("network", "epoch", {"jobs": 3, "network": "dsl"}, '--network is "dsl": must be one of: ship'),
    ("network", "epoch", {"jobs": 3, "timers": "long"}, '--timers is "long": must be one of: leas'),
    (
        "network",
        "epoch",
        {"jobs": 3, "racks": 1000, "machines_per_rack": 900},
        "at most 32,768 GPUs",
    ),
    ("network", "epoch", {"jobs": 3, "servers": 4}, "servers is no parameter"),
    ("heterogeneous", "offline", {}, "--jobs is required by family offline"),
    ("heterogeneous", "offline", {"jobs": 0}, "--jobs is 0: must be an integer from 1"),
    ("heterogeneous", "offline", {"jobs": 3, "rounds": 1}, "--rounds is 1: must be an integer fro"),
    (
        "heterogeneous",
        "offline",
        {"jobs": 3, "objective": "epoch"},
        '--objective is "epoch": must ',
    ),
    (
        "heterogeneous",
        "offline",
        {"jobs": 3, "forking": "yes", "objective": "throughput"},
        '--forking is "yes": must be no for the objective throughput',
    ),
    ("heterogeneous", "offline", {"jobs": 3, "largest_gang": 9}, "--largest-gang is 9: must be an"),
    ("heterogeneous", "offline", {"jobs": 3, "forking": "maybe"}, '--forking is "maybe": must be '),
    ("heterogeneous", "offline", {"jobs": 3, "servers": 4}, "servers is no parameter"),
    ("heterogeneous", "offline", {"jobs": 3, "gpu_types": "k80,k80"}, '--gpu-types is "k80,k80": '),
    ("heterogeneous", "offline", {"jobs": 3, "gpu_types": ""}, '--gpu-types is "": must be names '),
    ("heterogeneous", "offline", {"jobs": 3, "gpu_types": 3}, "--gpu-types is 3: must be names se"),
    ("heterogeneous", "offline", {"jobs": 3, "throughputs": 3}, "--throughputs is 3: must be the "),
]


@pytest.mark.parametrize(("problem", "family", "parameters", "message"), BAD_PARAMETERS)
def test_bad_parameters(problem, family, parameters, message):
    with pytest.raises(UserError) as caught:
        generate(problem, family, **parameters)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
