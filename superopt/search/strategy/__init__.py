"""Search strategies: the order in which equal graphs are explored. `driver` has the flow from model to result."""
