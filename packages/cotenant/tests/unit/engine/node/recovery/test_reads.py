"""What recovery reads where it is the only policy that limits best-effort work."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.fakes.node.troubled_node import TroubledNode

from cotenant.engine.node.policies import PolicySettings, enabled_policies
from cotenant.engine.node.recovery.settings import RecoverySettings
from cotenant.model.machine.knob import Knob, KnobTarget


def test_the_quotas_that_tell_who_is_held_are_read_without_the_guard() -> None:
    state = replace(next(TroubledNode(Random(1)).states(1)), best_effort_group="batch")
    policies = enabled_policies(PolicySettings(best_effort_cpu=None, recovery=RecoverySettings()))
    asked = {target for policy in policies for target in policy.reads(state)}
    assert {KnobTarget("batch", Knob.CPU_MAX), KnobTarget("batch/b", Knob.CPU_MAX)} <= asked
