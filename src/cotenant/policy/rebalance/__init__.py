"""What should move."""
