"""Shipped help for tests: a real server in a process of its own, a model that says what it is told, and harnesses in worlds
of their own.
"""
