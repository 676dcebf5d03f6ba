"""`cotenant scheduler`: a complete second scheduler of a Kubernetes cluster."""
