"""Speed of everything that is, or uses, a Kubernetes API server."""
