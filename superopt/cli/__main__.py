"""`python -m superopt.cli`: the program `superopt`."""

from superopt.cli import main

main()
