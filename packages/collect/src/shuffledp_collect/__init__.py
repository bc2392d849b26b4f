"""A private histogram collected from people (experimental): campaign, devices, mixer and analyst.

README.md shows how to run a collection and says who can do what in it.
"""
