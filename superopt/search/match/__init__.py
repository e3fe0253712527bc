"""Rule matching: an index of the rules, an index of the graph, and a matcher that finds the matches of rules."""
