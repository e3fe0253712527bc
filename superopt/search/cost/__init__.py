"""Cost models: seconds of an operator (analytic or measured), and the price of a graph as the runtime will run it."""
