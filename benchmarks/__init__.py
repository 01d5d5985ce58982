"""Benchmarks; each is a script: `python -m benchmarks.<name>`, and `make bench` runs all."""
