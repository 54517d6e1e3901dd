"""The evaluators: a command, and the built-ins."""
