"""What came of the runs: tables with the paper's figures beside ours, plots and pages."""
