"""Passes from ttgir to SPIR-V."""
