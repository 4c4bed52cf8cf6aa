"""The paper's experiments and ours: methods × data sets × seeds, run and stored."""
