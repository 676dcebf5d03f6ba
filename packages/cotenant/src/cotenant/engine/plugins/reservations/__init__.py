"""Reservations: assigned like pods, used by their owners, and ended on expiry.

Belongs here: the engine's handling of reservations. Not here: which pods may use which amounts
(policy/placement/reservations).
"""
