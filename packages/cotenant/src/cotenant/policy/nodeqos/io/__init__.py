"""Disk and network of a node: weights and limits by QoS class.

Belongs here: values for io.* and the traffic classes of the uplink. Not here: memory bandwidth (nodeqos/memory).
"""
