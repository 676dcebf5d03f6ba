"""Read-only views of API objects: frozen structs with the fields that controllers and nodes read, decoded from the
stored JSON.

Not here: defaults and validation (`apiserver/schema`), decisions, or anything written back: writes are patches made by
the rules.
"""
