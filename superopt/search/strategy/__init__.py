"""Search strategies: how the space of equal graphs is searched. `driver` has the flow from the model to the result."""
