"""The keeper's files: the state file of leases, and the audit trail.

Belongs here: reading and writing these files durably. Not here: what a lease means (engine/leases), or when it is
written (services/keeper).
"""
