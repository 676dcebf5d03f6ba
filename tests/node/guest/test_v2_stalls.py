"""What containers wait for, on Linux 6.1."""

from tests.node.guest.stall_cases import *  # noqa: F403
