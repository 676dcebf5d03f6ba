"""Use by the hour, as it is learned, stored and read again.

Belongs here: the values. Not here: what follows from them (policy/prediction), and histories that a Prometheus has
(model/assess).
"""
