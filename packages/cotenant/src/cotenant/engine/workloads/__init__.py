"""Workload profiles of one cluster: which pods belong to which, and what their measurements say by axis.

Belongs here: what follows from measurements of pods, the state that follows WorkloadProfile objects, and the statuses
that it gives. Not here: the figures from sums (policy/interference/axes.py), learned interference
(engine/state/learned_profiles.py), objects and I/O.
"""
