"""The built-in kinds: the list of served resources, and the behaviour of each kind beyond being stored.

Belongs here: what happens to an object at create, update, status write and deletion (a `KindBehaviour` per kind).
Not here: shapes, defaults and field validation (`schema`), what holds for every kind (`verbs`), controllers.
"""
