"""Kubernetes objects as the model's values, and back: one file a kind, a custom kind's schema beside it.

Belongs here: reading and writing the fields of objects. Not here: requests (drivers/kube/client) or any judgement.
"""
