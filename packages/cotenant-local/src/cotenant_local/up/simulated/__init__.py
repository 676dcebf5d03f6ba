"""What simulated nodes do beside a local cluster that shows the whole loop: the agent on a simulated machine, requests
as spans, and a workload in which a neighbour hurts a service.

Belongs here: the joints between the simulated world (cotenant_local/nodes) and the processes of a real cluster (the
agent, the trace process). Not here: the laws of the world, and decisions.
"""
