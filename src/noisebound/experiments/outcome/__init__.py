"""What came of it: tables and figures with the paper's beside them, and pages."""
