"""A short run, and where it stops."""

TARGET = "results/privacy/town.shape.parquet"
FOLDERS = ["checkins", "grids", "privacy"]
RUN = ["--cores", "2", TARGET]
CROPPED = "job os.rename results/checkins/"  # the job's last act: it names its table
