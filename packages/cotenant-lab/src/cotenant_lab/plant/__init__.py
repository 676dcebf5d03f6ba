"""One node's CPU as a controlled plant: groups, their knobs and counters, in virtual time, for the same agent that runs
on real nodes.

Belongs here: the simulated machine, and recordings of real ones. Not here: the agent's engine (engine/node) or clusters
of nodes (cotenant_lab/world).
"""
