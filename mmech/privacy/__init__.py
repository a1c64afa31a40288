"""What a release costs, whom it protects, and the ledger that it is paid from."""
