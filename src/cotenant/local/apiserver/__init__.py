"""The API server: what ordinary Kubernetes clients talk to."""
