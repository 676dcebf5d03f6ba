"""Which devices of one node, and which part of each: topology, partitions, virtual functions, strategies."""
