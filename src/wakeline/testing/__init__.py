"""Shipped help for tests: a real server in a process of its own, for our tests, our benchmarks and yours."""
