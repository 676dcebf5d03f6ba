"""Leader election among several processes: the election by a Lease, and its I/O. Named as in client-go.

Belongs here: leading and handing over. Not here: leases of knobs (engine/leases).
"""
