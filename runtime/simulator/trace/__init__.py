"""Record what every subgroup executed, for people."""
