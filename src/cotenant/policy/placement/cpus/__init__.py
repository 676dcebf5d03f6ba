"""Which CPUs and NUMA nodes of one node: taking, keeping count, aligning."""
