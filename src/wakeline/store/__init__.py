"""The durable store: one group-commit writer and one set of reads over SQLite or PostgreSQL."""
