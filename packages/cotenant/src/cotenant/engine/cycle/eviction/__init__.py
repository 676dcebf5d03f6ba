"""Who has to go for a waiting pod, and what is kept for it until they are gone.

Belongs here: the search for victims, what their eviction breaks, nominations, moves of replicas, and which events
may make evictions help. Not here: the order of victims, which is pure (policy/placement/preemption.py), and
evictions within a quota or for a gang (engine/plugins).
"""
