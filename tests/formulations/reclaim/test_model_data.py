"""Starts in both forms of the model, without any backend."""

from lyra_opt.formulations.reclaim.model_data import plain, strengthened


def test_forms_of_the_rigid_model(figure_5):
    """Job b (server s3) is folded; d (s5, s6) and c (s4, s5) make s4 and s6 alike but for cost."""
    assert [len(plain(figure_5).preempting), len(plain(figure_5).thresholds)] == [7, 0]
    model = strengthened(figure_5)
    assert model.server_cost == (0, 0, 1, 0, 0, 0)
    assert [job.losses for job in model.jobs] == [
        ((0, 1), (1, 1)),
        ((3, 1), (4, 1)),
        ((4, 1), (5, 1)),
    ]
    assert model.dominance == ((0, 1), (3, 4), (5, 4))
