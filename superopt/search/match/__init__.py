"""Rule matching: the rules indexed by operator, the graph indexed by operator, and the matches of one in the other."""
