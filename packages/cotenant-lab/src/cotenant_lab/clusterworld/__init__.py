"""A simulated cluster around the scheduling engine: API server, kubelets and job controller in virtual time.

Belongs here: what carries out the engine's instructions, and what measures the result. Not here: scheduling decisions
(engine) and the workload (cotenant_lab/workloads).
"""
