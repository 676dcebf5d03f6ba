"""`cotenant up`: a local cluster on one machine.

Belongs here: assembling the API server, controllers and simulated nodes (local) with scheduler and extender processes,
and their order of start and stop. Not here: the parts themselves (local), and what is shown in `cotenant demo`
(cotenant_local/demo).
"""
