"""Traffic classes of the host's uplink, through Linux' traffic control.

Belongs here: netlink requests for queues, classes and filters. Not here: rates by QoS class (policy/nodeqos/io).
"""
