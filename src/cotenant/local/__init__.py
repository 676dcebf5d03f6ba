"""A local Kubernetes-like cluster in one process: API server, controllers, simulated nodes, and the workloads submitted to it.

Not here: the scheduler (`engine`), clients over HTTP (`drivers/kube`), and the process that runs all of it (`services/up`).
"""
