"""Colours that a colour-blind reader can tell apart, for every picture and scene."""

INK, GRID, PAPER = "#22313f", "#d9dee3", "#ffffff"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#332288")
"""Okabe and Ito's colours, in the order x, y, z and rotor 0, 1, 2, …"""
