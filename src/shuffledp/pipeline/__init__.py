"""Parts of a run: configuration, tables, files and jobs. Nothing here depends on Snakemake."""
