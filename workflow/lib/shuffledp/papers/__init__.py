"""Everything that exists only because a paper says it.

Bounds of the literature, paper D's algorithms and experiments, and the recomputed tables, figures
and numbers of the four papers. Nothing certified depends on it.
"""
