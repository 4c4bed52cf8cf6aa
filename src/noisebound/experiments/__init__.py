"""The paper's protocol: methods, data sets and seeds, run and stored."""
