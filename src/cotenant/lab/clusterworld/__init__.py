"""A simulated cluster around the cluster's own engine: API server, kubelets and job controller in virtual time."""
