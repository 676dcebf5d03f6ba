"""The processes: they wire drivers to engines."""
