"""Changes of releases and virtual machines that are asked for from elsewhere: over the bus, or in the console.

Belongs here: changes that run on while nobody waits, and what is told of them. Not here: how a change is made (apps,
vms), who may ask for it (the fleet's controllers, the console).
"""
