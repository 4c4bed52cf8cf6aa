"""HTML pages: a run, a comparison, suspects, the explorer, and the review application."""
