"""Nouns and decisions: facts in, verdict out.  No I/O, no clock, no dice."""
