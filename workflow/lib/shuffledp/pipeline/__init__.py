"""What a run is made of: configuration, tables, files, jobs. It knows nothing of Snakemake."""
