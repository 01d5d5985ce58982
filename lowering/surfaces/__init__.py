"""Find the loads and stores that touch a 2D surface."""
