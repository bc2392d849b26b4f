"""Bounds of the literature, and the recomputed tables, figures and numbers of papers A to D.

A is Biswas, Jung and Palamidessi; B Girgis et al.; C Koskela, Heikkilä and Honkela; D Chen, Cao
and Ge (docs/papers.md). No certified bound depends on this package.
"""
