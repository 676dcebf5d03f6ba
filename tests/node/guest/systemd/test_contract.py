"""The contract beside a kubelet whose groups are systemd's: the same cases as on this machine."""

from tests.node.kubelet.test_contract import TestBesideTheKubelet

__all__ = ["TestBesideTheKubelet"]
