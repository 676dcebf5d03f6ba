"""The real world, one folder for each interface: the Kubernetes API, cgroups, counters, devices, HTTP, files.

Belongs here: reading, writing, and translation into the values of the model, with the errors `Transient`, `Permanent`
and `Unsupported`. Not here: decisions (policy, engine), which drivers must not import, and the processes that use
drivers (services).
"""
