"""The agent's effects on the node: the keeper that writes knobs, classes of cache and uplink, evictions.

Belongs here: what changes the machine or asks another process to. Not here: when it happens (loop).
"""
