"""`python -m superopt`: the program `superopt`."""

from superopt.cli import main

main()
