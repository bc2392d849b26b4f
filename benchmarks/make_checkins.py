"""Make check-ins in the format of SNAP's loc-gowalla, the same for the same seed.

    python benchmarks/make_checkins.py FILE [--rows ROWS] [--seed SEED] [--city LATITUDE LONGITUDE]

FILE is packed with gzip. Users live in cities across the world, the largest of which is San
Francisco or where --city says. Few users have many check-ins. They return to some places, mostly
near home and sometimes in another city. The latest check-in of each user comes first, as in the
original.
"""

import argparse
import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

# Rows of loc-gowalla; median, logarithmic spread and maximum of a user's rows there (mean 60).
ROWS = 6_442_890
MEDIAN_USER_ROWS, USER_ROWS_LOG_SD, MAX_USER_ROWS = 24, 1.35, 2_175
CHUNK_USERS = 4_000
PLACES_PER_ROW = 0.75  # candidates of one user, not all of which are chosen
CITIES = 400
SAN_FRANCISCO = (37.76, -122.44)
KM_PER_DEGREE = 111.2
START, END = np.datetime64("2009-02-01T00:00:00"), np.datetime64("2010-10-23T00:00:00")
NAMES = ["user", "time", "latitude", "longitude", "location"]
AS_SNAP = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--rows", type=int, default=ROWS, help=f"default {ROWS}")
    parser.add_argument("--seed", type=int, default=1, help="default 1")
    parser.add_argument(
        "--city",
        type=float,
        nargs=2,
        default=SAN_FRANCISCO,
        metavar=("LATITUDE", "LONGITUDE"),
        help="middle of the largest city, in degrees; default San Francisco",
    )
    arguments = parser.parse_args()
    make_checkins(arguments.file, arguments.rows, arguments.seed, tuple(arguments.city))


def make_checkins(path: Path, rows: int, seed: int, city: tuple[float, ...]) -> None:
    random = np.random.default_rng(seed)
    cities = random.uniform([-45, -170], [62, 170], (CITIES, 2))
    cities[0] = city
    users = 0
    temporary = path.with_name(path.name + ".unfinished")
    # The header of gzip gets neither name nor time, so that the bytes are always the same.
    with temporary.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as stream:
        while rows:
            drawn = random.lognormal(np.log(MEDIAN_USER_ROWS), USER_ROWS_LOG_SD, CHUNK_USERS)
            sizes = np.clip(drawn, 1, MAX_USER_ROWS).astype(np.int64)
            sizes = np.diff(np.minimum(np.cumsum(sizes), rows), prepend=0)
            sizes = sizes[sizes > 0]
            pyarrow.csv.write_csv(checkins_of(sizes, users, cities, random), stream, AS_SNAP)
            users += len(sizes)
            rows -= int(sizes.sum())
    temporary.replace(path)


def checkins_of(
    sizes: NDArray[np.int64],
    first_user: int,
    cities: NDArray[np.float64],
    random: np.random.Generator,
) -> pa.Table:
    """Return the given numbers of check-ins per user, one user after the other."""
    user = np.repeat(np.arange(len(sizes)), sizes)
    choice = np.ceil(PLACES_PER_ROW * sizes).astype(np.int64)  # numbers of places of each user
    first_place = np.cumsum(choice) - choice
    # Like people, users visit few places often and most places only once.
    place = first_place[user] + (choice[user] * random.random(len(user)) ** 2).astype(np.int64)
    position = places_of(choice, cities, random)
    location = random.integers(0, 6_000_000, len(position))
    span = (END - START).astype(np.int64)
    joined = span * np.sqrt(random.random(len(sizes)))  # users join at a growing rate
    age = ((span - joined[user]) * random.random(len(user))).astype(np.int64)
    age = age[np.lexsort((age, user))]
    time = np.datetime_as_string(END - age.astype("timedelta64[s]"), timezone="UTC")
    latitude, longitude = position[place].T
    return pa.table(
        [first_user + user, pa.array(time), latitude, longitude, location[place]], names=NAMES
    )


def places_of(
    choice: NDArray[np.int64], cities: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Return latitude and longitude of every place that users may visit."""
    weights = 1 / np.arange(10, CITIES + 10)  # large cities are few
    weights /= weights.sum()
    home = cities[random.choice(CITIES, len(choice), p=weights)]
    home = moved(home, random.rayleigh(5, len(choice)), random)
    middle = np.repeat(home, choice, axis=0)
    away = random.random(len(middle)) < 0.05
    middle[away] = cities[random.choice(CITIES, away.sum(), p=weights)]
    return moved(middle, random.lognormal(np.log(3), 1.2, len(middle)).clip(max=300), random)


def moved(
    position: NDArray[np.float64], km: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.float64]:
    """Return positions at given distances from others, in random directions."""
    angle = random.uniform(0, 2 * np.pi, len(km))
    latitude = position[:, 0] + km * np.sin(angle) / KM_PER_DEGREE
    shrunk = KM_PER_DEGREE * np.cos(np.radians(position[:, 0]))
    longitude = (position[:, 1] + km * np.cos(angle) / shrunk + 180) % 360 - 180
    return np.round(np.column_stack([latitude, longitude]), 10)


if __name__ == "__main__":
    main()
