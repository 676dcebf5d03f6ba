"""What `cotenant up --workload` submits: the lab's workloads as ordinary manifests, over time."""
