"""A scheduling engine fed by an API server, for the scheduler and for the rebalancer, which rehearses moves on one.

Belongs here: the engine's options and settings files, and the watches that feed it. Not here: carrying out what it
decides (services/scheduler, services/rebalancer).
"""
