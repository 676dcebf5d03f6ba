"""The contracts of the scheduling engine, named as in the Kubernetes scheduling framework.

Belongs here: what a plugin and a rule of nodes must offer, instructions to the process, events that may help waiting
pods, a pod's states and settings. Not here: anything that keeps the cluster's state or judges.
"""
