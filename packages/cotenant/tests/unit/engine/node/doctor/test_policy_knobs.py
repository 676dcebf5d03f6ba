"""The table of policies' knobs names policies that exist."""

from __future__ import annotations

from dataclasses import fields

from cotenant.engine.node.doctor.policy_knobs import POLICY_KNOBS
from cotenant.engine.node.policies import PolicySettings


def test_every_row_is_a_policy() -> None:
    assert {row.policy for row in POLICY_KNOBS} <= {field.name for field in fields(PolicySettings)}
    assert len({(row.policy, row.what) for row in POLICY_KNOBS}) == len(POLICY_KNOBS)
