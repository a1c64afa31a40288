"""Sets of attributes: their designs, their tables, and counts of records in them."""
