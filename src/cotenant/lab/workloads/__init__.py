"""Workloads: the offers to schedulers, and their true values.

Belongs here: generators from a seed, and workloads built from traces. Not here: how pods behave once they run (lab/world), or reading of traces
(lab/traces).
"""
