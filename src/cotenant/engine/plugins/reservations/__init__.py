"""Reservations: they are assigned like pods, their owners draw from them, and they end in time.

Belongs here: the engine's side of reservations. Not here: who may draw what (policy/placement/reservations).
"""
