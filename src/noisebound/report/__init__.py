"""Tables, figures and pages out of what was measured."""
