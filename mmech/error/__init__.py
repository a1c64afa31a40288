"""Expected errors of strategies, lower bounds on them, and reports."""
