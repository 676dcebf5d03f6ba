"""The built-in kinds: which are served, and what each does beyond being stored."""
