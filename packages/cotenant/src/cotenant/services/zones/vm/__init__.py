"""Zones in virtual machines: the program in the guest, the link to it, and the back ends that act through it.

Belongs here: what a zone needs beyond a machine (drivers/qemu). Not here: the zone's engine and loop, which are those of every zone.
"""
