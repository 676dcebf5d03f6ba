"""What happens next: state machines without I/O. Events in, instructions out."""
