"""Who may use how much: the elastic quota tree. Pure. Not wired to a scheduler yet: only tests and a benchmark call it."""
