"""`cotenant lab`, the simulated world, and `cotenant node experiment`.

Belongs here: the commands that compare policies, list what is available, import traces, explain a run and run
experiments on this machine, with their flags and tables. Not here: what they run, and the commands of the product
(cotenant.cli).
"""
