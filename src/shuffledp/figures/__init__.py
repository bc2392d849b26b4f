"""Functions from tables to matplotlib figures, one module for each kind of figure.

``draw_...`` functions that return a figure read its tables from files. Paper A is that of Biswas
et al. (docs/papers.md).
"""
