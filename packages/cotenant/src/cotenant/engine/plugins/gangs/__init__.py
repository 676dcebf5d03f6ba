"""Gangs: which pods must run together, when a gang is complete, and how it is placed, held, preempted and reported.

Belongs here: the engine's side of gangs. Not here: what makes a gang complete (policy/placement/gangs) or its objects
(drivers/kube/kinds).
"""
