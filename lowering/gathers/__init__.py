"""Operands that no 2D message brings: lanes load them from addresses of their own."""
