"""Use of nodes and workloads over hours, and how long pods stay.

Belongs here: which series there are, when an hour is over, what is stored of it. Not here: what follows from hours
(policy/prediction), and what is lent by it (engine/manager).
"""
