"""The agent's reports to the cluster: the founding payload, NodeMetric, NodeResourceTopology and Device objects.

Belongs here: what is sent and when. Not here: the figures themselves (engine/node) or the API client (drivers/kube).
"""
