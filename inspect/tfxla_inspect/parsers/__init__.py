"""One reader a kind of artefact; each takes text, gives data, and never fails on what it cannot read."""
