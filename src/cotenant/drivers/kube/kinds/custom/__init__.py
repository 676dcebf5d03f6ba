"""Custom kinds of Koordinator and scheduler-plugins: a module a kind, the definition of the kind (YAML, by its plural) beside it.

Belongs here: structs, reading and writing of custom objects, and the definitions that `cotenant crds` prints. Not here: built-in kinds.
"""
