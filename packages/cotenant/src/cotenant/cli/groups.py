"""The groups of commands in `cotenant --help`, by what a person does.

Not here: the commands of each, which `main` lists; those of other packages, which `further` finds.
"""

from cyclopts import Group

TRY = Group("Try it on this machine", sort_key=1)
INSTALL = Group("Install and check", sort_key=2)
CLUSTER = Group("Run in a cluster", sort_key=3)
ASK = Group("Ask why", sort_key=4)
NODE = Group("On a node", sort_key=5)
FLEET = Group("Run hosts as a fleet, without a cluster", sort_key=6)
LAB = Group("Compare policies in the lab", sort_key=7)
