"""Scenarios: a workload with a world to run it in and its competitors, one per file.

Belongs here: objects that implement `Scenario` (cotenant_lab/contract.py), with their own event loops where they have
one. Not here: generators of workloads (cotenant_lab/workloads), policies (policy), or the runner of experiments
(cotenant_lab/experiment.py).
"""
