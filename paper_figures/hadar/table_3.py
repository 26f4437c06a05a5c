"""Table 3: what forking jobs changes on HadarE's two testbeds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instances.heterogeneous.clusters import find_cluster
from instances.heterogeneous.generated_jobs import MIX_SIZES, mix
from paper_figures.comparison import Comparison, Entry, Source, Table
from paper_figures.hadar.cases import (
    REMEMBERED_OF_TESTBEDS,
    TESTBEDS,
    MixCase,
    gangs_of,
    hours,
)
from paper_figures.hadar.schemes import (
    GAVEL,
    GAVEL_MAKESPAN,
    HADAR,
    HADARE,
    NAMES,
    notes_on_missing,
)
from paper_figures.runs import mean_of_ratios

if TYPE_CHECKING:
    from collections.abc import Callable

    from paper_figures.hadar.cases import Results, Run, Setting

SCHEMES = (HADAR, HADARE, GAVEL, GAVEL_MAKESPAN)
CRU = "1.45"
TTD = {"hadare-aws": "0.50", "hadare-lab": "0.20"}
REFERENCES = (HADAR, GAVEL)


def cases(setting: Setting) -> list[MixCase]:  # noqa: ARG001
    """Return what the table is made of."""
    return [
        MixCase(scheme=scheme, testbed=testbed, jobs=jobs)
        for testbed in TESTBEDS
        for jobs in MIX_SIZES
        for scheme in SCHEMES
    ]


def compare(results: Results) -> Comparison:
    """Return the claims beside ours."""
    entries = []
    for testbed, place in TESTBEDS.items():
        for reference in REFERENCES:
            over = f"HadarE over {NAMES[reference]}"
            for column, paper, measure in (
                ("TTD", TTD[testbed], _ttd),
                ("CRU", CRU, _cru),
            ):
                found = _over_mixes(results, testbed, reference, measure)
                mean, spread = mean_of_ratios(found)
                entries.append(
                    Entry.published_gain(
                        f"{place}, {over}",
                        column,
                        paper,
                        mean,
                        spread=spread,
                        source=Source.ABSTRACT,
                    )
                )
    return Comparison(
        name="hadar-table-3",
        title="HadarE, Table 3: forking on two testbeds of five nodes (simulated here)",
        entries=entries,
        remembered=REMEMBERED_OF_TESTBEDS,
        tables=[_mixes(results, testbed) for testbed in TESTBEDS],
        series={
            f"{measure}, {place}": list(
                zip(MIX_SIZES, _over_mixes(results, testbed, HADAR, of), strict=False)
            )
            for testbed, place in TESTBEDS.items()
            for measure, of in (("TTD", _ttd), ("CRU", _cru))
        },
        notes=[
            "TTD 50 % lower on AWS and 80 % lower in the laboratory, and CRU 1.45 times as high, "
            "are from the abstract. Against whom, and for which mixes, it does not say: means "
            "here are geometric, over the mixes M-1 to M-12; least and greatest are of mixes.",
            "What the mixes and the nodes are is from memory with little confidence, and no "
            "throughputs of these nodes were published: rates are those of a V100 times one "
            "number for each type.",
            *(sentence for testbed in TESTBEDS for sentence in find_cluster(testbed).assumptions),
            *_mix_in_words(),
            _most_that_forking_gives(),
            "Merging copies takes 10 s of each round (assumed); a step of several copies is worth "
            "as much as one of one copy. The quality of the trained models, which the abstract "
            "says is better, is not simulated.",
            *notes_on_missing(SCHEMES),
        ],
    )


def _over_mixes(
    results: Results, testbed: str, reference: str, measure: Callable[[Run], float]
) -> list[float]:
    found = []
    for jobs in MIX_SIZES:
        forked = results.of(MixCase(scheme=HADARE, testbed=testbed, jobs=jobs))
        other = results.of(MixCase(scheme=reference, testbed=testbed, jobs=jobs))
        if forked is not None and other is not None:
            found.append(measure(forked) / measure(other))
    return found


def _ttd(run: Run) -> float:
    return run.ttd_s


def _cru(run: Run) -> float:
    assert run.metrics.cru is not None, "rounds tell servers apart"
    return run.metrics.cru


def _mixes(results: Results, testbed: str) -> Table:
    rows = []
    for jobs in MIX_SIZES:
        row = [f"M-{jobs}"]
        for scheme in SCHEMES:
            run = results.of(MixCase(scheme=scheme, testbed=testbed, jobs=jobs))
            row += ["", ""] if run is None else [hours(run.ttd_s), f"{100 * _cru(run):.0f}"]
        rows.append(row)
    header = ["mix"]
    for scheme in SCHEMES:
        header += [f"{NAMES[scheme]}: TTD (h)", "CRU (%)"]
    return Table(title=f"Every mix, {TESTBEDS[testbed]}", header=header, rows=rows)


def _mix_in_words() -> list[str]:
    """Return what is assumed of the mixes on all testbeds, each sentence once."""
    mixes = (mix(MIX_SIZES[-1], gpu_types=find_cluster(name).gpu_types) for name in TESTBEDS)
    return list(dict.fromkeys(sentence for jobs in mixes for sentence in jobs.assumptions))


def _most_that_forking_gives() -> str:
    """Return how much sooner one job can end on all nodes than on the fastest, in words."""
    parts = []
    for testbed, place in TESTBEDS.items():
        cluster = find_cluster(testbed)
        (job,) = gangs_of(mix(1, gpu_types=cluster.gpu_types))
        rates = [job.rate(server.gpus, is_spread=False) for server in cluster.servers]
        parts.append(f"{100 * (1 - max(rates) / sum(rates)):.0f} % ({place})")
    return (
        "With these rates copies on all five nodes end a job at most "
        f"{' and '.join(parts)} sooner than the fastest node alone does, before any cost. 80 % is "
        "what five equal nodes give a single job."
    )
