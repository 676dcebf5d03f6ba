"""Idle GPUs, lent: what the holders of each card leave, at a stated risk, and how it comes back.

Belongs here: who holds and who borrows a card, what is offered of it, and which borrowers leave. Not here: the reading
of cards (drivers/gpu), the object that tells schedulers of it (services/agent/reports), and the choice of a card for a
pod (policy/placement/devices).
"""
