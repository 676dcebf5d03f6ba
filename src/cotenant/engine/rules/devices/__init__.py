"""Devices: which nodes can give what is asked of GPUs and cards, who holds which part, and what stands in the way.

Belongs here: each node's account of devices over time. Not here: how devices are chosen (policy/placement/devices).
"""
