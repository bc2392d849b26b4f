"""Bounds on the joint privacy profile of several releases about the same users."""
