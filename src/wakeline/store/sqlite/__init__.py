"""The embedded store: one SQLite file in WAL mode, one writer, readers beside it."""
