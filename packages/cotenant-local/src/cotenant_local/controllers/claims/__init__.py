"""Rules of ResourceClaims: those made for pods, and who holds one.

Not here: which devices a claim gets (the scheduler), and what drivers publish (`nodes/devices`).
"""
