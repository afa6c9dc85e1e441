"""Other ways to do the same: what `sggnn bench --peers` is timed against. They need the extra `bench`."""
