"""What one pod adds to its node's sums, worked out by hand; the compiled form adds the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cotenant.model.arrays import CPU, MEMORY, Float, Int, Param, Sum
from cotenant.policy.placement.contribution import contribution, plain_contribution

MICRO = 1_000_000
SERVICE, BATCH = 1.0, 0.0
SERVICE_SUMS = (Sum.SERVICE_CPU, Sum.SERVICE_A, Sum.SERVICE_AO, Sum.SERVICE_W, Sum.SERVICE_WA, Sum.SERVICE_WAO)
BATCH_SUMS = (Sum.BATCH_CPU, Sum.BATCH_A, Sum.BATCH_W, Sum.BATCH_WA)


def shape(kind: float, allowance: float = 0.5) -> tuple[Int, Float]:
    """2 cores requested and one lent, 1.5 in use; sensitivity 0.4, pressure 0.2."""
    request = np.zeros((1, 4), np.int64)
    request[0, CPU], request[0, MEMORY] = 2000, 7
    params = np.zeros((1, len(Param)))
    params[0, Param.USE_CPU], params[0, Param.USE_MEMORY], params[0, Param.LENT_CPU] = 1.5, 1000.4, 1.0
    params[0, Param.SENSITIVITY], params[0, Param.PRESSURE] = 0.4, 0.2
    params[0, Param.ALLOWANCE], params[0, Param.IS_SERVICE] = allowance, kind
    return request, params


FORMS = pytest.mark.parametrize("form", [contribution, plain_contribution], ids=["compiled", "plain"])
Form = Callable[[Int, Float, float, float], Int]


@FORMS
def test_a_service_adds_its_cores_by_sensitivity_weight_and_own_pressure(form: Form) -> None:
    (sums,) = form(*shape(SERVICE), 8.0, 0.7)
    own = 0.2 * 1.5 / 8.0
    assert (sums[Sum.USE_CPU], sums[Sum.USE_MEMORY]) == (1500, 1000)
    assert sums[Sum.PRESSURE] == round(0.2 * 1.5 * MICRO)  # whole: a service is in no partition
    assert sums[Sum.SERVICE_CPU] == 3000
    assert sums[Sum.SERVICE_A] == round(3 * 0.4 * MICRO)
    assert sums[Sum.SERVICE_AO] == round(3 * 0.4 * own * MICRO)
    assert sums[Sum.SERVICE_W] == 3 * 2 * MICRO
    assert sums[Sum.SERVICE_WA] == round(3 * 2 * 0.4 * MICRO)
    assert sums[Sum.SERVICE_WAO] == round(3 * 2 * 0.4 * own * MICRO)
    assert [int(sums[column]) for column in BATCH_SUMS] == [0] * 4


@FORMS
def test_a_batch_pod_adds_the_pressure_that_its_partition_leaves(form: Form) -> None:
    (sums,) = form(*shape(BATCH), 8.0, 0.7)
    assert sums[Sum.PRESSURE] == round(0.7 * 0.2 * 1.5 * MICRO)
    assert sums[Sum.BATCH_CPU] == 3000
    assert sums[Sum.BATCH_A] == round(3 * 0.4 * MICRO)
    assert sums[Sum.BATCH_W] == 3 * 2 * MICRO
    assert sums[Sum.BATCH_WA] == round(3 * 2 * 0.4 * MICRO)
    assert [int(sums[column]) for column in SERVICE_SUMS] == [0] * 6


@FORMS
@pytest.mark.parametrize(("allowance", "weight"), [(2.0, 0.5), (0.1, 10.0), (0.05, 10.0), (0.0, 10.0)])
def test_no_pod_weighs_more_than_ten_times_one_that_tolerates_a_doubling(
    form: Form, allowance: float, weight: float
) -> None:
    (sums,) = form(*shape(BATCH, allowance), 8.0, 0.7)
    assert sums[Sum.BATCH_W] == pytest.approx(3 * weight * MICRO)
