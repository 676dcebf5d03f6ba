"""Leases of knobs: what stood before each knob that is turned, how long a turn lasts, and how everything is put back.

Belongs here: the keeper's state machine. Not here: which knobs should be turned (engine/node).
"""
