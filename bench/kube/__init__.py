"""Speed of everything that talks to, or is, a Kubernetes API server."""
