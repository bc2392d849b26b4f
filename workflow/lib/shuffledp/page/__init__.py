"""Make the page of a run: one HTML file with maps, curves and tables, without a server."""
