"""A Kubernetes-shaped cluster in one process: API server, workload controllers, simulated nodes."""
