"""One HTML page that answers: the run's maps, curves and tables, without a server or a network."""
