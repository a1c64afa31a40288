"""Questions about operators, one file per question."""
