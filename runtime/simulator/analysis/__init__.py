"""Analyses of kernels that run before any host code is written."""
