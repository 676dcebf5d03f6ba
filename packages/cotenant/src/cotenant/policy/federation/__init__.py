"""Several clusters as one for fairness: what a cluster states of its tenants, the weights that follow, noise for small
tenants, and where a new job should run.

Belongs here: pure functions of statements. Not here: who is believed over time (engine/federation), signatures, the bus
and API objects (drivers, services/federation).
"""
