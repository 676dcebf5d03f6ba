"""The next steps: the manager reads what they create, and lends on the labelled nodes only."""

from __future__ import annotations

import shlex

from cotenant.model.cluster.labels import Labels
from cotenant.policy.overcommit.strategy import DEFAULTS, is_enabled, merge, read_config, strategy_of
from cotenant.services.assess.steps import LENDING, TRIAL_LABEL, next_steps


def test_lending_is_on_for_labelled_nodes_only() -> None:
    config = read_config(LENDING)

    def lends(labels: dict[str, str]) -> bool:
        return is_enabled(config, merge(DEFAULTS, strategy_of(config, Labels.of(labels), {}).strategy))

    assert lends({TRIAL_LABEL: "trial"})
    assert not lends({})


def test_every_step_is_a_command_with_a_way_back() -> None:
    steps = next_steps(["worker-1", "worker-2", "worker-3"])
    assert len(steps) == 3
    for step in steps:
        assert shlex.split(step.command)
        assert step.back
        assert step.risk
    assert LENDING in shlex.split(steps[2].command)[-1]
    assert "worker-1 worker-2 " in steps[2].command
    assert "worker-1 worker-2 " in steps[2].back_command
    assert shlex.split(steps[2].back_command)
    assert "NODE1 NODE2" in next_steps([])[2].command
