"""The manager's engine: which amounts of batch and mid resources each node offers, and its NodeSLO. A state machine
without I/O.

Belongs here: what changes over time (history of use, hysteresis, staleness, what was written). Not here: the formulas
and predictors (policy/overcommit), or watching and writing objects (services/manager).
"""
