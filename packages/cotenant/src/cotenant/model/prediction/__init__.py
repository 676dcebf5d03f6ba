"""Use by the hour, as it is learned, stored and read again."""
