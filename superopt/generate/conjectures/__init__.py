"""Conjectures: equations between graphs that are probably equal, before generalisation and proof."""
