"""Make the page of a run: one HTML file with maps, curves and tables, which needs no server."""
