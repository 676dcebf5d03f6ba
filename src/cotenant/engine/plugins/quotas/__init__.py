"""Elastic quotas: who is admitted, who waits and why, what is taken back, and what the quotas' objects are told.

Belongs here: the accounts of quotas over time. Not here: how a quota tree divides (policy/quota).
"""
