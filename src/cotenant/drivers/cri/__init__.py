"""The container runtime of one node, by Kubernetes' runtime interface (CRI)."""
