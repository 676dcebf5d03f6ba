"""Kinds of storage: volumes, claims, classes, CSI drivers, and what they mean for the nodes of a pod.

Belongs here: the structs of these kinds, and indexes that turn them into values for scheduling. Not here: choices of
volumes (engine/state/storage/volumes.py).
"""
