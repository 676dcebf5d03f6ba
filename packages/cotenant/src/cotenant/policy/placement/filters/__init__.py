"""Filters that look at one node's row only, with their scores where kube-scheduler's plugin has one: fit, taints, node
affinity, load threshold.

Belongs here: plain forms of row-local filters. Not here: rules over several nodes (placement/topology), compiled forms
(placement/compiled.py).
"""
