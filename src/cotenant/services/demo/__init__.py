"""`cotenant demo`: the whole loop on this machine, once for each profile, with figures."""
