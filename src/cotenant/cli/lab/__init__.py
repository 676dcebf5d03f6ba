"""`cotenant lab`: the simulated world.

Belongs here: the commands that compare policies, list what is available, import traces and explain a run, with their flags and tables.
Not here: the experiments themselves (lab), and commands about real or local clusters (cli/cluster).
"""
