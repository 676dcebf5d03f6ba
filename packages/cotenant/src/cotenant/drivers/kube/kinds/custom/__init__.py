"""Custom kinds of Koordinator and scheduler-plugins: a module a kind; `crds` has the definition of each kind, YAML by
its plural.

Belongs here: structs, reading and writing of custom objects, and the definitions that `cotenant crds` prints. Not here:
built-in kinds.
"""
