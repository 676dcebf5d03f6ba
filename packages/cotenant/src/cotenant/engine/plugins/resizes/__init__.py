"""Resizes in place that a kubelet defers: room is made for them on their nodes.

Belongs here: which pods wait for room where they run, and whom the engine asks to go for them. Not here: who those are
(policy/placement/resize_room.py), and how sizes are found (engine/sizing).
"""
