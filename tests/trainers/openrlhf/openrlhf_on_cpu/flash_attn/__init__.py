"""Stand-ins for the names that OpenRLHF imports wherever it is; it calls none of them unless samples are packed."""
