"""A local Kubernetes-like cluster in one process: API server, controllers, simulated nodes, and the workloads submitted
to it.

Belongs here: the API server, controllers and simulated nodes, the process that runs all of them (up), and the
demonstration (demo). Not here: the scheduler and the other processes, which run as they do in any cluster (cotenant),
and the simulated world (cotenant_lab).
"""
