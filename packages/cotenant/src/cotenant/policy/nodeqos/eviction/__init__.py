"""Evictions by the node: when CPU or memory runs short, how much has to be freed, and which pods are evicted for it.

Belongs here: goals, triggers, the choice of victims. Not here: preemption by the scheduler (placement/preemption.py) or
limits that avoid evictions.
"""
