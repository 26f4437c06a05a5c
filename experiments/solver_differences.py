"""Compute paired differences between the objectives of the solvers of a study."""

from lyra_opt.core.numbers import count, three_digits
from lyra_opt.core.table import Column, Table
from lyra_opt.experiments.analysis import FAMILY, Analysis
from lyra_opt.experiments.random_inputs import RandomInputs, Sample, paired_columns, paired_table

RANDOM = RandomInputs(
    Sample.INSTANCES,
    "The instances are what is random: an interval covers other instances that the family draws in "
    "the same way, not other families. Instances on which one of the two has no solution are left "
    "out.",
)


def solver_differences(analysis: Analysis, baseline: str | None = None) -> Table | None:
    """Return a table of differences in the objective, with a row for each family and solver.

    Parameters
    ----------
    baseline
        The configuration with which the others are compared; None for the first one.

    Returns
    -------
    Table or None
        None if no other configuration solved an instance that the baseline solved.
    """
    names = analysis.configurations
    chosen = names[0] if baseline is None else baseline
    frame = analysis.frame
    has_number = frame.objective.notna() & (frame.terms.fillna(1) == 1)
    found = frame[has_number].pivot(
        index=[FAMILY, "cell"], columns="configuration", values="objective"
    )
    rows = []
    for name in names:
        if name == chosen or not {name, chosen} <= {*found.columns}:
            continue
        both = found[[chosen, name]].dropna().astype(float)
        for family, pairs in both.groupby(level=FAMILY, sort=False):
            rows.append((family, name, len(pairs), RANDOM.paired(*pairs.to_numpy().T)))
    if not rows:
        return None
    families, solvers, counts, paired = map(list, zip(*rows, strict=True))
    return paired_table(
        [
            Column(key="family", values=families),
            Column(key="solver", values=solvers),
            Column(key="instances", values=counts, show=count),
            *paired_columns(paired, [three_digits] * len(rows), RANDOM),
        ],
        RANDOM,
        title=f"Differences in the objective: A is {chosen}, B is the solver",
    )
