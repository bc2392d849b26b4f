"""Catalogue of the mechanisms: names, labels, markers in figures and trust assumptions.

Code that displays a mechanism or checks its name needs only this module, which imports no
numerical library. docs/architecture.md describes how to add a mechanism.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from shuffledp.errors import InputError

# Names of the estimators that every mechanism has: unbiased, and projected onto the simplex.
UNBIASED: Final = "raw"
DISTRIBUTION: Final = "projected"
# Name of the posterior median, which exists for mechanisms whose noise has a known law.
POSTERIOR: Final = "posterior"
# Name of the calibration to the (eps, delta) with paper A's delta-hat, its eq. 10.
DELTA_HAT: Final = "delta-hat"
# Views, that is, parties against whom a guarantee may hold. The analyst decrypts the reports but
# does not know their senders. The shuffler knows the senders, but cannot decrypt the reports. Both
# read the published map, as does the public. "both" stands for shuffler and analyst together.
VIEWS: Final = ("analyst", "shuffler", "public", "both")
RECORDS: Final = "every record"
SERVERS: Final = "shuffler and analyst"


@dataclass(frozen=True)
class Look:
    """Marker of an estimator, the same in all figures.

    Colour and shape identify the mechanism; shapes differ even in greyscale. A marker that is not
    filled stands for an estimate that is a distribution, a half-filled one for a posterior median.
    """

    colour: str
    marker: str
    filled: bool = True
    half_filled: bool = False


@dataclass(frozen=True)
class Estimator:
    """An estimator of the users' distribution, with its name in tables and its look in figures.

    ``counterpart`` is the name of the estimator of other mechanisms with which it is compared; None
    if it is not compared.
    """

    name: str
    label: str
    look: Look
    counterpart: str | None


@dataclass(frozen=True)
class Entry:
    """Description of one mechanism.

    Attributes
    ----------
    name, label
        Name in tables and configuration, and label in figures.
    class_path, source
        Dotted path of the class; publications, and which parts are new here.
    disclosed
        What is disclosed to each of `VIEWS` that the guarantee does not cover, in a few words.
    estimators
        `UNBIASED` first, then `DISTRIBUTION`, then further ones.
    extra_trust, servers
        Who must be trusted to add dummies or noise, and which two parties must not collude.
    matched
        Whether the parameters are calibrated to the eps and delta of a comparison; otherwise they
        follow from the setting's eps0.
    own_calibrations
        Names of additional calibrations, which are not at equal privacy, with captions in figures.
    """

    name: str
    label: str
    class_path: str
    source: str
    disclosed: Mapping[str, str]
    estimators: tuple[Estimator, ...]
    extra_trust: str = ""
    servers: str = SERVERS
    matched: bool = True
    own_calibrations: Mapping[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """Dotted path of the module that defines the class."""
        return self.class_path.rpartition(".")[0]

    @property
    def central(self) -> bool:
        """Whether a trusted curator counts the records, without a shuffler."""
        return "analyst" in self.disclosed

    @property
    def trust(self) -> str:
        """Statement of which parties must be trusted with what."""
        if self.central:
            return f"curator, with {self.disclosed['analyst']}"
        together = f"both together see {self.disclosed['both']}"
        clauses = [f"{self.servers}, who must not collude: {together}"]
        if "shuffler" in self.disclosed:
            clauses.append(f"shuffler, with {self.disclosed['shuffler']}")
        return "; ".join([*clauses, self.extra_trust] if self.extra_trust else clauses)


def _estimators(label: str, colour: str, marker: str, *own: Estimator) -> tuple[Estimator, ...]:
    """Return the two estimators that every mechanism has, and then the additional ones."""
    return (
        Estimator(UNBIASED, f"{label}, raw", Look(colour, marker), UNBIASED),
        Estimator(
            DISTRIBUTION, f"{label}, projected", Look(colour, marker, filled=False), DISTRIBUTION
        ),
        *own,
    )


_DISCLOSED_TO_CURATOR: Final = dict.fromkeys(("analyst", "shuffler", "both"), RECORDS)
_DISCLOSED_IF_RANDOMISED: Final = {"both": "reports that reveal at most eps0"}
_DISCLOSED_IF_TRUE: Final = {"both": RECORDS}


def _with_noise(
    name: str, label: str, path: str, source: str, colour: str, marker: str, **options: Any
) -> Entry:
    """Return the entry of a mechanism that adds noise with a known law, to true reports."""
    look = Look(colour, marker, filled=False, half_filled=True)
    posterior = Estimator(POSTERIOR, f"{label}, posterior", look, DISTRIBUTION)
    estimators = _estimators(label, colour, marker, posterior)
    options = {"disclosed": _DISCLOSED_IF_TRUE} | options
    return Entry(name, label, _PACKAGE + path, source, estimators=estimators, **options)


def _shuffled(
    name: str, label: str, path: str, source: str, colour: str, marker: str, **options: Any
) -> Entry:
    """Return the entry of a mechanism whose randomised reports are shuffled."""
    estimators = _estimators(label, colour, marker)
    return Entry(
        name, label, _PACKAGE + path, source, _DISCLOSED_IF_RANDOMISED, estimators, **options
    )


_PACKAGE: Final = "shuffledp.mechanisms."
# fmt: off
_ENTRIES: Final = (
    _with_noise(
        "gaussian", "Gaussian", "gaussian.CentralGaussian",
        "Dwork, Kenthapadi, McSherry et al. 2006; calibrated exactly: Balle and Wang 2018",
        "#0072B2", "o", disclosed=_DISCLOSED_TO_CURATOR,
        own_calibrations={
            "as-published": "NOT equal privacy, calibration as published: "
            r"$\epsilon=\epsilon_0$, and $\delta=10^{-20}$ for the Gaussian alone"
        },
    ),
    Entry(
        name="krr",
        label="shuffle+INV",
        class_path="shuffledp.mechanisms.randomised_response.KRandomisedResponse",
        source="Warner 1965 for k = 2; Kairouz, Oh and Viswanath 2014; shuffled: Balle, Bell, "
        "Gascón and Nissim 2019",
        disclosed=_DISCLOSED_IF_RANDOMISED,
        estimators=_estimators(
            "shuffle+INV",
            "#D55E00",
            "s",
            Estimator(
                "maximum-likelihood",
                "shuffle, maximum likelihood",
                Look("#009E73", "D", filled=False),
                DISTRIBUTION,
            ),
            Estimator("uncorrected", "shuffle, not inverted", Look("#777777", "D"), None),
        ),
        matched=False,
    ),
    _with_noise(
        "discrete-laplace", "discrete Laplace", "discrete_laplace.DiscreteLaplace",
        "Ghosh, Roughgarden and Sundararajan 2009",
        "#56B4E9", "P", disclosed=_DISCLOSED_TO_CURATOR,
    ),
    _with_noise(
        "user-dummies", "dummies by users", "user_dummies.UserDummies",
        "close to FE1: Luo, Wang and Yi 2022; pureDUMP: Li, Liu, Feng et al. 2020, a "
        "preprint; fake users: Cheu and Zhilyaev 2022; exact delta: here",
        "#8C510A", "X", extra_trust="all users, to add dummies",
    ),
    _with_noise(
        "shuffler-dummies", "dummies by the shuffler", "shuffler_dummies.ShufflerDummies",
        "close to: Murakami, Sei and Eriguchi 2025; uniform fake reports of shufflers: "
        "Wang, Ding, Xu et al. 2020; exact delta: here",
        "#CC79A7", "*",
        disclosed=_DISCLOSED_IF_TRUE | {"shuffler": "the exact histogram, once the map is out"},
        extra_trust="shuffler, to add dummies",
    ),
    _with_noise(
        "two-servers", "noise by both servers", "two_servers.TwoServers",
        "here; histograms among two servers that do not collude, by encrypted computation: "
        "Bell, Gascón, Ghazi et al. 2022",
        "#117733", ">", extra_trust="shuffler and analyst, to add noise each",
    ),
    _with_noise(
        "prio3-histogram", "Prio3Histogram", "prio3_histogram.Prio3Histogram",
        "Corrigan-Gibbs and Boneh 2017; Davis, Patton, Rosulek and Schoppmann 2023; "
        "draft-irtf-cfrg-vdaf; noise as in libprio (PureDpDiscreteLaplace)",
        "#AA4499", r"$\spadesuit$",
        extra_trust="both aggregators, to add noise each", servers="two aggregators",
    ),
    _shuffled(
        "mixdump", "k-RR and dummies by users", "mixdump.Mixdump",
        "close to mixDUMP: Li, Liu, Feng et al. 2020, a preprint; certified delta: here",
        "#661100", "^", extra_trust="all users, to add dummies",
    ),
    _shuffled(
        "subset-selection", "subset selection, best m", "subset_selection.ShuffledSubsets",
        "Wang, Huang, Wang et al. 2016; Ye and Barg 2018; m for the shuffler: here",
        "#882255", "v",
    ),
    _shuffled(
        "unary-encoding", "unary encoding, best p", "unary_encoding.ShuffledUnaryEncoding",
        "Wang, Blocki, Li and Jha 2017; p for the shuffler: here",
        "#332288", "p",
    ),
    _shuffled(
        "oue", "OUE", "unary_encoding.ShuffledOUE", "Wang, Blocki, Li and Jha 2017", "#44AA99", "d"
    ),
    _shuffled(
        "rappor", "RAPPOR", "unary_encoding.ShuffledRappor",
        "Erlingsson, Pihur and Korolova 2014, the basic one",
        "#BB8866", "8",
    ),
    _shuffled(
        "local-hashing", "local hashing, best g", "local_hashing.ShuffledHashing",
        "Wang, Blocki, Li and Jha 2017; g for the shuffler: Wang, Ding, Xu et al. 2020 (SOLH)",
        "#999933", "H",
    ),
    _shuffled(
        "hadamard", "Hadamard response, one block", "hadamard.ShuffledHadamard",
        "Acharya, Sun and Zhang 2019",
        "#000000", "h",
    ),
)
# fmt: on

CATALOGUE: Final[dict[str, Entry]] = {each.name: each for each in _ENTRIES}


def get_entries(names: Iterable[str]) -> list[Entry]:
    """Return the entries of mechanisms by their names; raise `InputError` if one is unknown."""
    names = list(names)
    for name in names:
        if name not in CATALOGUE:
            raise InputError(f"unknown mechanism {name!r} (mechanisms: {', '.join(CATALOGUE)})")
    return [CATALOGUE[name] for name in names]


def get_estimator(mechanism: str, estimator: str) -> Estimator:
    """Return an estimator by the names of mechanism and estimator; raise `KeyError` if unknown."""
    return {each.name: each for each in CATALOGUE[mechanism].estimators}[estimator]


def own_calibrations(names: Iterable[str]) -> dict[str, str]:
    """Return the captions of these mechanisms' calibrations that are not at equal privacy, by name.

    Raises `InputError` like `get_entries`.
    """
    return {
        calibration: caption
        for entry in get_entries(names)
        for calibration, caption in entry.own_calibrations.items()
    }
