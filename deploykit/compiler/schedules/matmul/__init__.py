"""Matrix products by register tiles."""
