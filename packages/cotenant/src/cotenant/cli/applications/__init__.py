"""`cotenant app` and `cotenant vm`: flags, help texts, and how releases and virtual machines are shown.

Not here: what is done (services/apps, services/vms).
"""
