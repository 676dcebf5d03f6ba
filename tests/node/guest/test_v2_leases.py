"""Leases over cgroup v2's knobs: the same cases as on this machine."""

from tests.node.test_leases import *  # noqa: F403
