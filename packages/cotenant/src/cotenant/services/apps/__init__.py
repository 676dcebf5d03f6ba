"""The commands of `cotenant app`: sources read, releases recorded, changes carried out, workloads watched.

Belongs here: the order of calls. Not here: what is done next (engine/apps), the calls themselves (drivers/kube,
drivers/helm), what is printed (cli/applications).
"""
