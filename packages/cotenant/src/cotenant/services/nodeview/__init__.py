"""Readings of a node without its agent: for `cotenant node` where no agent runs, or beside it.

Belongs here: one-off samples and capability checks. Not here: anything that writes (services/agent, services/keeper).
"""
