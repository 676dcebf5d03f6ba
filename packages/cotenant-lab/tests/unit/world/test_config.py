import pytest

from cotenant.model.errors import InvalidInput
from cotenant_lab.world.config import WorldConfig


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nodes", 0),
        ("node_cores", 0),
        ("horizon_s", float("nan")),
        ("interference", -1.0),
        ("interference", float("inf")),
        ("pressure_law", "cubic"),
        ("smt_loss", 1.0),
        ("plan_cores_p", (0.5, 0.4)),
        ("stages_p", (0.5, 0.4)),
        ("queueing_start", 0.6),
        ("horizon_s", 3600.0),
        ("run_out_horizons", 0.5),
        ("service_share", 1.0),
    ],
)
def test_a_world_that_cannot_be_is_refused_by_name(field, value):
    with pytest.raises(InvalidInput) as error:
        WorldConfig(**{field: value})
    assert error.value.field == field


def test_a_run_ends_at_the_latest_after_three_and_a_half_horizons():
    assert WorldConfig().limit_s == 75_600.0
