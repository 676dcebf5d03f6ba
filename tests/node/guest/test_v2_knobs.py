"""The contract of knobs on cgroup v2: the same cases as on this machine."""

from tests.node.test_knobs import TestKnobsOfThisMachine

__all__ = ["TestKnobsOfThisMachine"]
