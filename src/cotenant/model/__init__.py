"""What things are: frozen values and the arrays they are laid out in. Imports nothing of ours above it."""
