"""Use of nodes and pods from the resource metrics API, sampled for a while.

Belongs here: what metrics.k8s.io answers, as a history. Not here: reports of agents (NodeMetric, drivers/kube/kinds),
and histories that a Prometheus keeps (drivers/prometheus).
"""
