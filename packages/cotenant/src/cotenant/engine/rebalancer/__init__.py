"""The rebalancer's engine: from measured nodes and placed pods to a plan of moves, each simulated on the scheduling
engine.

Belongs here: facts over time, the what-if placement of a moved pod, and limits of one round. Not here: the rules
(policy/rebalance), reading objects and printing plans (services/rebalancer, cli).
"""
