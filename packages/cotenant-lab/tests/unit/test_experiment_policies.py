"""All policies that the experiments name exist."""

import pytest
from bench.evidence.experiments import EXPERIMENTS

from cotenant_lab.registry import scenario


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment.name)
def test_an_experiment_names_only_policies_that_exist(experiment) -> None:
    arguments = dict(zip(experiment.arguments[::2], experiment.arguments[1::2], strict=False))
    known = {info.name for info in scenario(arguments["--workload"]).policies()}
    policies = arguments.get("--policies", "")
    assert set(filter(None, policies.split(","))) <= known
