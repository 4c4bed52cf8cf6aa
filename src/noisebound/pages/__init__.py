"""Pages about runs: one training, a comparison, suspect labels."""
