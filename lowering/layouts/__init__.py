"""Give dots the layouts of the matrix unit, and take layout conversions away."""
