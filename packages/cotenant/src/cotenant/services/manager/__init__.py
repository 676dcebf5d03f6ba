"""The manager process: watches nodes, pods, measurements and the ConfigMap, and writes what the manager's engine
decides.

Belongs here: watches, writes, metrics. Not here: the one-shot explanation of a node (services/offers), formulas
(policy/overcommit) and what changes over time (engine/manager).
"""
