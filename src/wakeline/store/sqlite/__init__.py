"""The embedded store: one SQLite file in WAL mode, one writer thread, readers beside it."""
