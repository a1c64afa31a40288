"""Files: one archive format, one codec for strategies and measurements."""
