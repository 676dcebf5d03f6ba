"""What should happen: pure judgement, one folder a question. No clock, no I/O, no global randomness."""
