"""From surfaces and dots to tiles of one warp, and from tiles to instructions."""
