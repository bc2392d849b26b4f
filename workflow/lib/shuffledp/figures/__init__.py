"""Functions from tables to matplotlib figures, one module for each kind of figure.

``draw_...`` functions read tables from files. Paper A is that of Biswas et al. (docs/papers.md).
"""
