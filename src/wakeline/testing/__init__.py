"""Shipped help for tests: a real server as a child process, a model that says what it is told, real harnesses."""
