"""Cost models: the time of one operator (analytic or measured), and the price of a graph as the runtime fuses it."""
