"""A private histogram from real people (experimental): campaign, devices, mixer, analyst.

docs/collect.md leads through it, docs/security.md says who sees what.
"""
