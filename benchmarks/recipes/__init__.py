"""Every recipe on the sets that it was published with."""
