"""What is rewritten in a kernel before it is widened."""
