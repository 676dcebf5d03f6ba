"""Counters, run delay and pressure on cgroup v2: the same cases as on this machine."""

from tests.node.test_measuring import *  # noqa: F403
