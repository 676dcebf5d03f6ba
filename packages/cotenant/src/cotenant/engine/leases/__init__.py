"""Leases of knobs: the original value of each knob that is written, how long the written value is held, and how the
original is restored.

Belongs here: the keeper's state machine, without I/O. Not here: which knobs should be written (engine/node), or the
writing (services/keeper).
"""
