"""The contract beside a kubelet on cgroup v2: the same cases as on this machine."""

from tests.node.kubelet.test_contract import TestBesideTheKubelet

__all__ = ["TestBesideTheKubelet"]
