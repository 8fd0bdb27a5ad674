"""Everything written for people and tools on the way: numbered files, a trace, a manifest."""
