"""A scheduling engine that decides beside another scheduler and acts on nothing.

Belongs here: judging without consequences, comparing with what the other scheduler did, following what came of it.
Not here: the engine that judges (engine/cluster.py), and the process (services/scheduler/shadow).
"""
