"""Memory and caches of a node: protection and throttling of memory by QoS class, reclaim under pressure, cache ways and
memory bandwidth.

Belongs here: values for memory.* and resctrl. Not here: evictions for lack of memory (nodeqos/eviction).
"""
