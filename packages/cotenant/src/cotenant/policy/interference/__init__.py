"""Detection of antagonists on one node: which service suffers, which pod causes it, capping that pod, and whether the
cap helped.

Belongs here: signals, samples, usual values, ranking, capping. Not here: the guard, which limits best-effort work as a
whole (nodeqos/guard).
"""
