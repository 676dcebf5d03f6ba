"""The rebalancer: its configuration, its watches, and plans of moves for people (`cotenant rebalancer plan`).

Belongs here: reading the configuration file and the cluster. Not here: which pods should move (policy/rebalance), and
how a plan is made (engine/rebalancer).
"""
