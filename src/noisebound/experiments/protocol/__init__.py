"""What is run: methods × columns × seeds, at a scale, each run with its config and its data."""
