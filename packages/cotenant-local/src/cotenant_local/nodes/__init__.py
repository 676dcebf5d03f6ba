"""Simulated nodes: thousands of kubelets in one process, and the world model that decides their pods' CPU, memory and
latency.

Belongs here: kubelet behaviour without I/O, node manifests, the writes and Lease renewals of the fleet.
Not here: the laws of contention (`cotenant_lab/world`), the API server, and real nodes (`services/agent`).
"""
