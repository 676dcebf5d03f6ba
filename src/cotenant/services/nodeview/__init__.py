"""A node looked at from outside its agent: for `cotenant node` where no agent runs, or beside it."""
