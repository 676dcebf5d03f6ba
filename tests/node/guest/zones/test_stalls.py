"""What containers wait for, on the newest kernel."""

from tests.node.guest.stall_cases import *  # noqa: F403
