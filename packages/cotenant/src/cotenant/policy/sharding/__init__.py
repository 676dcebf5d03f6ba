"""Who of several schedulers decides what: nodes and groups of pods by rendezvous hashing, and which nodes are lent.

Belongs here: pure functions of names. Not here: when a change takes effect (engine/sharding).
"""
