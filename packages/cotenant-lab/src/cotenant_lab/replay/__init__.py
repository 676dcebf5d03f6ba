"""Exact placement for replays in the lab: the queue of pods that share GPUs.

Belongs here: placement without a cluster around it. Not here: the scheduling cycle (engine/cycle), which does not use
it.
"""
