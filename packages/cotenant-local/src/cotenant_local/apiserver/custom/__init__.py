"""Custom resources: CustomResourceDefinitions are validated, compiled, and served while they exist.

Belongs here: structural schemas, their pruning, defaults and validation, JSONPath columns, and the task that serves
definitions. Not here: the schemas of built-in kinds (`schema`).
"""
