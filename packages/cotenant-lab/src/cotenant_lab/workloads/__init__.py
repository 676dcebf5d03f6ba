"""Workloads: the offers to schedulers, and their true values.

Belongs here: generators from a seed, and workloads built from traces. Not here: how pods behave once they run
(cotenant_lab/world), or reading of traces (cotenant_lab/traces).
"""
