"""Elastic quotas: admission of pods, preemption within a quota, revocation of overuse, and the status written to quota
objects.

Belongs here: quota accounting over time. Not here: how a quota tree divides its resources (policy/quota).
"""
