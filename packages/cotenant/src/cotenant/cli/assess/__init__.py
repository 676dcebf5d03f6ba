"""`cotenant assess`: its flags, and its report as tables. Not here: the report itself (services/assess)."""
