"""The HTTP face of the API server: what a socket says, turned into calls of the in-process API and back."""
