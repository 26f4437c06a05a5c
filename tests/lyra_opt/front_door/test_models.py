"""Models handed out: whole, in the instance's objective, and the same when a file is read back."""

import subprocess

import highspy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lyra_opt as lo
from lyra_opt.__main__ import main
from lyra_opt.allocation import Objective as AllocationObjective
from lyra_opt.allocation.knapsack.of_instance import KNAPSACK_OBJECTIVES
from lyra_opt.heterogeneous import GpuServer, GpuType
from lyra_opt.heterogeneous.instance import SCHEDULE_OBJECTIVES, SHARE_OBJECTIVES, Objective
from lyra_opt.testing.strategies import (
    allocation_instances,
    heterogeneous_instances,
    network_instances,
    preemption_instances,
    reclaim_instances,
)
from tests.draws import draws
from tests.lyra_opt.heterogeneous import examples
from tests.tables import tables

TABLES = tables(__file__)
KINDS = {
    "reclaim": (reclaim_instances(), ("", "-strengthened")),
    "knapsacks": (
        st.sampled_from(KNAPSACK_OBJECTIVES).flatmap(
            lambda kind: allocation_instances(objective=kind, max_gpus=12)
        ),
        ("", "-strengthened"),
    ),
    "rounds": (
        st.sampled_from(sorted(SCHEDULE_OBJECTIVES)).flatmap(
            lambda kind: heterogeneous_instances(objective=kind)
        ),
        ("",),
    ),
    "network": (network_instances(), ("", "-patterns")),
    "preemption": (preemption_instances(max_nodes=3, max_gangs=3, max_pending=2), ("",)),
}
FORMS = [(kind, form) for kind, (_, forms) in KINDS.items() for form in forms]
every_form = pytest.mark.parametrize(("kind", "form"), FORMS)
TOLERANCE = 1e-5
NOT_LINEAR = {Objective.FINISH_TIME_FAIRNESS, Objective.MAKESPAN_SHARE}
"""Data are rounded to floats near 1, and backends stop within their own tolerances."""


def optimum_by_pulp(model):
    """Return what CBC finds, None if there is no solution."""
    import pulp

    options = ["preprocess off"]  # as the docstring of `lo.model` says
    cbc = pulp.PULP_CBC_CMD(msg=False, gapRel=0, options=options, _skip_v4_deprecation=True)
    model.solve(cbc)
    return None if model.status == pulp.LpStatusInfeasible else pulp.value(model.objective) or 0.0


def optimum_by_cpsat(model):
    """Return what CP-SAT finds."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.presolve_inclusion_work_limit = 0  # as the docstring of `lo.model` says
    status = solver.solve(model)
    return None if status == cp_model.INFEASIBLE else solver.objective_value


def optimum_by_mathopt(model, solver_type="GSCIP"):
    """Return what SCIP finds."""
    from ortools.math_opt.python import mathopt

    result = mathopt.solve(model, mathopt.SolverType[solver_type])
    return result.objective_value() if result.has_primal_feasible_solution() else None


def optimum_of_file(path):
    """Return what SCIP finds for an MPS file that OR-Tools reads, and HiGHS for an LP file."""
    if path.suffix == ".mps":
        from ortools.math_opt.io.python import mps_converter
        from ortools.math_opt.python import mathopt

        stated = mps_converter.mps_to_model_proto(path.read_text())
        return optimum_by_mathopt(mathopt.Model.from_model_proto(stated))
    return optimum_by_highs(path)


def optimum_by_highs(path):
    """Return what HiGHS finds, which also writes its solution file."""
    import highspy

    highs = highspy.Highs()
    highs.silent()
    highs.setOptionValue("mip_rel_gap", 0.0)
    assert highs.readModel(str(path)) in (highspy.HighsStatus.kOk, highspy.HighsStatus.kWarning)
    highs.run()
    highs.writeSolution(str(path.with_suffix(".highs.sol")), 0)
    if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    return highs.getInfo().objective_function_value


def optimum_by_cbc(path, sense):
    """Return what CBC's own command finds, as docs/formats/model.md says how to call it."""
    import pulp

    command = pulp.PULP_CBC_CMD(msg=False, _skip_v4_deprecation=True).path
    found = path.with_suffix(".cbc.sol")
    options = ("-preprocess", "off", "-ratio", "0")
    is_told = path.suffix == ".mps" and sense == "max"
    subprocess.run(
        [command, path, *(["-max"] if is_told else []), *options, "-solve", "-solution", found],
        check=True,
        capture_output=True,
    )
    status, _, value = found.read_text().partition("\n")[0].partition(" - objective value ")
    if status != "Optimal":
        assert "nfeasible" in status
        return None
    return float(value)


OPTIMUM = {"pulp": optimum_by_pulp, "cpsat": optimum_by_cpsat, "mathopt": optimum_by_mathopt}


def assert_same(found, optimum):
    """Equal within the tolerance, or both without a solution."""
    if optimum is None:
        assert found is None
    else:
        assert found == pytest.approx(optimum, rel=TOLERANCE, abs=TOLERANCE)


def brute_force(instance):
    """Return whether brute force takes an instance, and its optimum, None if it is infeasible."""
    answer = lo.solve(instance, "brute-force")
    if answer.status is lo.Status.UNSUPPORTED:
        return False, None
    assert answer.status in (lo.Status.OPTIMAL, lo.Status.INFEASIBLE)
    return True, answer.objective


@every_form
@pytest.mark.parametrize("language", OPTIMUM)
@given(data=st.data())
@draws(10)
def test_the_optimum_of_a_model_is_that_of_its_instance(kind, form, language, data):
    """Solved by the library itself, from nothing: no cut-off has found its way into it."""
    instance = data.draw(KINDS[kind][0])
    is_taken, optimum = brute_force(instance)
    if is_taken:
        assert_same(OPTIMUM[language](lo.model(instance, language + form)), optimum)


@every_form
@pytest.mark.parametrize("suffix", [".mps", ".lp"])
@given(data=st.data())
@draws(10)
def test_a_file_holds_the_model_and_is_the_same_every_time(
    kind, form, suffix, data, tmp_path_factory
):
    """Sense, constant, integers and the digits that count stay, whoever reads it.

    PuLP's own MPS files lose the first two; CBC loses constant and integers of HiGHS' LP files.
    """
    instance = data.draw(KINDS[kind][0])
    path = tmp_path_factory.mktemp("export") / f"model{suffix}"
    name = "mathopt" + form
    lo.export_model(instance, path, name)
    written = path.read_bytes()
    lo.export_model(instance, path, name)
    assert path.read_bytes() == written
    is_taken, optimum = brute_force(instance)
    if is_taken:
        assert_same(optimum_of_file(path), optimum)
        assert_same(optimum_by_highs(path), optimum)
        assert_same(optimum_by_cbc(path, instance.variant.sense), optimum)
        for solver in ("highs", "cbc"):
            assert_read_back(instance, path.with_suffix(f".{solver}.sol"), optimum)


def assert_read_back(instance, path, optimum):
    """A solver's own file is a valid solution of the instance, as good as it says."""
    found = lo.verify(instance, path)
    if optimum is None:
        assert found.violations == ("there is no solution",)
    else:
        assert found, found.violations
        assert_same(found.objective, optimum)


@given(instance=heterogeneous_instances(objective=Objective.THROUGHPUT), data=st.data())
@draws(5)
def test_names_of_variables_are_those_of_the_formulation(instance, data):
    """A share of time is called x, job, type."""
    model = lo.model(instance, "mathopt")
    assert {variable.name.partition("_")[0] for variable in model.variables()} <= {"x", "v"}


@pytest.mark.parametrize("objective", sorted(SHARE_OBJECTIVES - NOT_LINEAR))
@given(data=st.data())
@draws(10)
def test_share_models_are_worth_what_the_solvers_prove(objective, data, tmp_path_factory):
    """Linear programmes in the objective's unit, solved by GLOP; HiGHS and our bound prove them."""
    instance = data.draw(heterogeneous_instances(objective=objective))
    answer = lo.solve(instance, "lp-highs")
    found = optimum_by_mathopt(lo.model(instance, "mathopt"), "GLOP")
    if answer.status is lo.Status.OPTIMAL:
        assert found == pytest.approx(answer.objective, rel=1e-4, abs=1e-6)
        path = tmp_path_factory.mktemp("shares") / "model.mps"
        lo.export_model(instance, path)
        optimum_by_highs(path)
        shares = lo.load_solution(instance, path.with_suffix(".highs.sol"))
        assert lo.verify(instance, shares).objective == pytest.approx(found, rel=1e-4, abs=1e-6)
    elif answer.status is lo.Status.INFEASIBLE:
        assert found is None


@given(data=st.data())
@draws(10)
def test_models_of_mean_jct_are_never_below_the_optimum(data):
    """The grid of a model is that of real schedules."""
    instance = data.draw(allocation_instances(objective=AllocationObjective.MEAN_JCT, max_jobs=2))
    exact = lo.solve(instance, "exact", time_limit_s=5)
    assert exact.objective is not None
    if exact.status is not lo.Status.OPTIMAL:
        return
    on_grid = optimum_by_cpsat(lo.model(instance, "cpsat"))
    assert exact.objective <= on_grid + TOLERANCE * (1 + exact.objective)


FLEET = lo.generate("reclaim", "net", reclaim=6)


@pytest.mark.parametrize("solver", TABLES["solution_files"])
def test_layouts_of_other_solvers(solver, write):
    """SCIP 10 wrote its file for this fleet; Gurobi's has the layout of its documentation."""
    path = write(TABLES["solution_files"][solver], "solver.sol")
    assert lo.verify(FLEET, path).objective == 8
    started = lo.solve(FLEET, "random", start=path)
    assert started.objective == 8


def test_a_strengthened_model_is_told_from_the_plain_one(tmp_path):
    """Both number the servers, but not the same servers: the claimed objective decides."""
    fleet = lo.generate("reclaim", "messy-dist", servers=20, seed=1)
    model = tmp_path / "model.mps"
    lo.export_model(fleet, model, "mathopt-strengthened")
    optimum = optimum_by_cbc(model, "min")
    assert_read_back(fleet, model.with_suffix(".cbc.sol"), optimum)


@pytest.mark.parametrize(("old", "new", "says"), TABLES["damaged_solution_files"])
def test_damaged_solution_files_are_refused_in_a_line(old, new, says, tmp_path):
    path = tmp_path / "solver.sol"
    text = TABLES["solution_files"]["gurobi"]
    assert old in text
    path.write_text(text.replace(old, new))
    with pytest.raises(lo.UserError, match=says) as refusal:
        lo.verify(FLEET, path)
    assert "\n" not in str(refusal.value)


def test_a_false_objective_is_a_violation(write):
    path = write(TABLES["solution_files"]["gurobi"].replace("value = 8", "value = 7"), "solver.sol")
    (violation,) = lo.verify(FLEET, path).violations
    assert violation.startswith("objective is claimed to be 7.0, but is 8; the file may belong to")


def test_a_file_that_states_infeasibility_is_refused(tmp_path):
    """Even if its values are a solution; the same word in the name of a model means nothing."""
    path = tmp_path / "solver.sol"
    path.write_text("solution status: infeasible\n" + TABLES["solution_files"]["scip"].lstrip())
    with pytest.raises(lo.UserError, match='states "infeasible", so its values are not a solution'):
        lo.verify(FLEET, path)
    path.write_text(TABLES["solution_files"]["gurobi"].replace("fleet", "infeasible"))
    assert lo.verify(FLEET, path)


def test_files_of_cp_sat_are_read_back(tmp_path):
    """Binary and text are the same model."""
    from google.protobuf import text_format
    from ortools.sat import cp_model_pb2

    lo.export_model(FLEET, tmp_path / "model.pb", "cpsat")
    lo.export_model(FLEET, tmp_path / "model.txtpb")
    binary = cp_model_pb2.CpModelProto.FromString((tmp_path / "model.pb").read_bytes())
    text = text_format.Parse((tmp_path / "model.txtpb").read_text(), cp_model_pb2.CpModelProto())
    assert binary == text
    assert len(binary.constraints) == len(lo.model(FLEET, "cpsat").proto.constraints)


def test_names_in_an_instance_are_none_of_a_file(tmp_path):
    """Ids may hold blanks and signs that would end a word of an MPS file."""
    kinds = (GpuType(name="A 100"), GpuType(name="A_100"))
    one = examples.instance(
        examples.job(throughput={"A 100": 2.0, "A_100": 1.0}),
        gpu_types=kinds,
        servers=(GpuServer(id="+ 1", gpus={"A 100": 1, "A_100": 1}),),
    )
    for suffix in (".mps", ".lp"):
        lo.export_model(one, tmp_path / f"model{suffix}")
        assert_same(optimum_of_file(tmp_path / f"model{suffix}"), brute_force(one)[1])


@pytest.mark.parametrize("solver", ["pulp-cbc", "pulp-gurobi"])
def test_a_solver_names_its_model(solver):
    """Whoever knows the solver need not know the language."""
    by_language = lo.model(FLEET, "pulp-strengthened")
    assert str(lo.model(FLEET, f"{solver}-strengthened")) == str(by_language)


def test_a_model_of_one_language_is_refused_in_files_of_the_other(tmp_path):
    """Shares are no integers, so that CP-SAT has no model of them; nothing is written."""
    shares = examples.instance(examples.job(), objective="throughput")
    with pytest.raises(lo.UserError, match=r"no cpsat version.*\*\.mps or \*\.lp"):
        lo.export_model(shares, tmp_path / "model.pb", "mathopt")
    with pytest.raises(lo.UserError, match="convex"):
        lo.model(examples.instance(examples.job(), objective="finish_time_fairness"), "mathopt")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_exports_what_it_solves(tmp_path, capsys):
    """The model of the solver that is named, the plain one without; a heuristic has none."""
    file, model = str(tmp_path / "fleet.json"), tmp_path / "model.mps"
    lo.save(FLEET, file)
    assert main(["solve", file, "--solver", "cpsat-strengthened", "--export", str(model)]) == 0
    assert optimum_of_file(model) == lo.solve(FLEET, "exact").objective
    strengthened = model.read_bytes()
    assert main(["solve", file, "--export", str(model)]) == 0
    assert model.read_bytes() != strengthened
    plain = model.read_bytes()
    both = ["--solver", "peeling", "--solver", "cpsat-strengthened", "--export", str(model)]
    assert main(["solve", file, *both]) == 0
    assert model.read_bytes() == strengthened
    assert main(["solve", file, "--solver", "peeling", "--export", str(model)]) == 0
    assert model.read_bytes() == plain


@pytest.mark.parametrize("suffix", [".mps", ".lp", ".pb"])
def test_an_export_alone_solves_nothing_and_names_the_model(suffix, tmp_path, capsys):
    """With the numbers of rows and columns that another solver reads in the file."""
    file, model = str(tmp_path / "fleet.json"), tmp_path / f"model{suffix}"
    lo.save(FLEET, file)
    assert main(["solve", file, "--export", str(model)]) == 0
    out, err = capsys.readouterr()
    says = "model cpsat, 441 constraints, 119 variables"
    if suffix != ".pb":
        programme = highspy.Highs()
        programme.silent()
        programme.readModel(str(model))
        says = f"model mathopt, {programme.getNumRow()} rows, {programme.getNumCol()} columns"
    assert (out, err) == ("", f"lyra-opt: {model}: {says}\n")
    assert main(["solve", file, "--export", str(model), "--solver", "peeling"]) == 0
    assert "peeling" in capsys.readouterr().out


def test_a_model_with_another_optimum_says_so(tmp_path, capsys):
    """Nobody takes the optimum of a model on a grid for that of the instance."""
    job = {"id": "j", "min_workers": 1, "max_workers": 2, "work_worker_s": 60}
    instance = lo.allocation.Instance(gpus=8, jobs=[job], objective="mean_jct")
    file, model = str(tmp_path / "elastic.json"), tmp_path / "model.pb"
    assert "a time grid" in (lo.export_model(instance, model) or "")
    lo.save(instance, file)
    assert main(["solve", file, "--export", str(model)]) == 0
    assert "a time grid" in capsys.readouterr().err
    assert lo.export_model(FLEET, model) is None
