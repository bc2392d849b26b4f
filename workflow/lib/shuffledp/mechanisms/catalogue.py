"""Every mechanism as data: its names, labels and looks, who must be trusted, where its code is.

Whoever shows a mechanism, or checks its name, reads this module and none of the mathematics. To add
a mechanism, write its module and a row here (docs/extending.md).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from shuffledp.errors import InputError

# Names that every mechanism has: the unbiased estimate, and that on the simplex.
UNBIASED: Final = "raw"
DISTRIBUTION: Final = "projected"
# Who looks, reports being sealed for the analyst: who opens them, without their senders; who mixes
# them, knows the senders and reads the published map; who reads the map; the first two together.
VIEWS: Final = ("analyst", "shuffler", "public", "both")
RECORDS: Final = "every record"


@dataclass(frozen=True)
class Look:
    """How a series is drawn everywhere.

    The colour (of Okabe and Ito's) and the shape of the marker tell the mechanism, white filling
    that the estimate is a distribution: no two look alike in grey.
    """

    colour: str
    marker: str
    filled: bool = True


@dataclass(frozen=True)
class Estimator:
    """A way to estimate the distribution of a mechanism's users from what the analyst sees.

    Attributes
    ----------
    name
        In tables.
    label, look
        In figures.
    like
        Estimator of another mechanism that it is fairly compared with; None for no comparison.
    """

    name: str
    label: str
    look: Look
    like: str | None


@dataclass(frozen=True)
class Entry:
    """What there is to say of a mechanism.

    Attributes
    ----------
    name, label
        In tables and configuration, and in figures.
    home
        Its class: dotted names of module and class.
    source
        Who published it, and what of it is of this project.
    seen
        What those of `VIEWS` see who see more than what is promised, in a few words.
    estimators
        `UNBIASED` first, then `DISTRIBUTION`, then its own.
    duty
        Who must add what, beside mixing.
    matched
        Whether its parameters are calibrated to the budgets of a comparison; else they follow from
        the setting's eps0.
    own_calibrations
        Names of calibrations that are not at equal privacy, and what figures say of each.
    """

    name: str
    label: str
    home: str
    source: str
    seen: Mapping[str, str]
    estimators: tuple[Estimator, ...]
    duty: str = ""
    matched: bool = True
    own_calibrations: Mapping[str, str] = field(default_factory=dict)

    @property
    def module(self) -> str:
        """Dotted name of the module that has its class."""
        return self.home.rpartition(".")[0]

    @property
    def central(self) -> bool:
        """Whether a curator counts the records: nobody mixes."""
        return "analyst" in self.seen

    @property
    def trust(self) -> str:
        """Who must be trusted with what."""
        if self.central:
            return f"curator, with {self.seen['analyst']}"
        words = [
            f"shuffler and analyst, who must not collude: both together see {self.seen['both']}"
        ]
        if "shuffler" in self.seen:
            words.append(f"shuffler, with {self.seen['shuffler']}")
        return "; ".join([*words, self.duty] if self.duty else words)


def _estimators(label: str, colour: str, marker: str, *own: Estimator) -> tuple[Estimator, ...]:
    """The two that every mechanism has, each compared with its like, and its own."""
    return (
        Estimator(UNBIASED, f"{label}, raw", Look(colour, marker), UNBIASED),
        Estimator(
            DISTRIBUTION, f"{label}, projected", Look(colour, marker, filled=False), DISTRIBUTION
        ),
        *own,
    )


_CENTRAL: Final = dict.fromkeys(("analyst", "shuffler", "both"), RECORDS)
_LOCAL: Final = {"both": "reports that reveal at most eps0"}
_CLEAR: Final = {"both": RECORDS}


def _shuffled(name: str, label: str, home: str, source: str, colour: str, marker: str) -> Entry:
    """A local randomiser whose reports are mixed."""
    return Entry(name, label, home, source, _LOCAL, _estimators(label, colour, marker))


_ENTRIES: Final = (
    Entry(
        name="gaussian",
        label="Gaussian",
        home="shuffledp.mechanisms.gaussian.CentralGaussian",
        source="Dwork, Kenthapadi, McSherry et al. 2006; calibrated exactly: Balle and Wang 2018",
        seen=_CENTRAL,
        estimators=_estimators("Gaussian", "#0072B2", "o"),
        own_calibrations={
            "as-published": "NOT equal privacy, calibration as published: "
            "$\\epsilon=\\epsilon_0$, where the shuffle model's $\\delta$ is 0;\n"
            r"Gaussian $\sigma$ as diffprivlib returns it for $\delta=10^{-20}$, sensitivity 1"
        },
    ),
    Entry(
        name="krr",
        label="shuffle+INV",
        home="shuffledp.mechanisms.krr.KRandomisedResponse",
        source="Warner 1965 for k = 2; Kairouz, Oh and Viswanath 2014; shuffled: Balle, Bell, "
        "Gascón and Nissim 2019",
        seen=_LOCAL,
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
    Entry(
        name="discrete-laplace",
        label="discrete Laplace",
        home="shuffledp.mechanisms.discrete_laplace.DiscreteLaplace",
        source="Ghosh, Roughgarden and Sundararajan 2009",
        seen=_CENTRAL,
        estimators=_estimators("discrete Laplace", "#56B4E9", "P"),
    ),
    Entry(
        name="user-dummies",
        label="dummies by users",
        home="shuffledp.mechanisms.user_dummies.UserDummies",
        source="close to FE1: Luo, Wang and Yi 2022; pureDUMP: Li, Liu, Feng et al. 2020, a "
        "preprint; fake users: Cheu and Zhilyaev 2022; exact delta: here",
        seen=_CLEAR,
        duty="all users, to add dummies",
        estimators=_estimators("dummies by users", "#E69F00", "X"),
    ),
    Entry(
        name="shuffler-dummies",
        label="dummies by the shuffler",
        home="shuffledp.mechanisms.shuffler_dummies.ShufflerDummies",
        source="close to: Murakami, Sei and Eriguchi 2025; uniform fake reports of shufflers: "
        "Wang, Ding, Xu et al. 2020; exact delta: here",
        seen=_CLEAR | {"shuffler": "the exact histogram, once the map is out"},
        duty="shuffler, to add dummies",
        estimators=_estimators("dummies by the shuffler", "#CC79A7", "*"),
    ),
    Entry(
        name="two-servers",
        label="noise by both servers",
        home="shuffledp.mechanisms.two_servers.TwoServers",
        source="here; histograms among two servers that do not collude, by encrypted computation: "
        "Bell, Gascón, Ghazi et al. 2022",
        seen=_CLEAR,
        duty="shuffler and analyst, to add noise each",
        estimators=_estimators("noise by both servers", "#117733", ">"),
    ),
    Entry(
        name="signed-dummies",
        label="signed dummies by users",
        home="shuffledp.mechanisms.signed_dummies.SignedDummies",
        source="for sums: Ghazi, Kumar, Manurangsi, Pagh and Sinha 2021; law of histograms: here",
        seen=_CLEAR,
        duty="all users, to add dummies",
        estimators=_estimators("signed dummies by users", "#AA4499", "<"),
    ),
    Entry(
        name="mixdump",
        label="k-RR and dummies by users",
        home="shuffledp.mechanisms.mixdump.Mixdump",
        source="close to mixDUMP: Li, Liu, Feng et al. 2020, a preprint; certified delta: here",
        seen=_LOCAL,
        duty="all users, to add dummies",
        estimators=_estimators("k-RR and dummies by users", "#661100", "^"),
    ),
    _shuffled(
        "subset-selection",
        "subset selection, best m",
        "shuffledp.mechanisms.subset_selection.ShuffledSubsets",
        "Wang, Huang, Wang et al. 2016; Ye and Barg 2018; m for the shuffler: here",
        "#882255",
        "v",
    ),
    _shuffled(
        "unary-encoding",
        "unary encoding, best p",
        "shuffledp.mechanisms.unary_encoding.ShuffledUnaryEncoding",
        "Wang, Blocki, Li and Jha 2017; p for the shuffler: here",
        "#332288",
        "p",
    ),
    _shuffled(
        "oue",
        "OUE",
        "shuffledp.mechanisms.unary_encoding.ShuffledOUE",
        "Wang, Blocki, Li and Jha 2017",
        "#44AA99",
        "d",
    ),
    _shuffled(
        "rappor",
        "RAPPOR",
        "shuffledp.mechanisms.unary_encoding.ShuffledRappor",
        "Erlingsson, Pihur and Korolova 2014, the basic one",
        "#8C510A",
        "8",
    ),
    _shuffled(
        "local-hashing",
        "local hashing, best g",
        "shuffledp.mechanisms.local_hashing.ShuffledHashing",
        "Wang, Blocki, Li and Jha 2017; g for the shuffler: Wang, Ding, Xu et al. 2020 (SOLH)",
        "#999933",
        "H",
    ),
    _shuffled(
        "hadamard",
        "Hadamard response, one block",
        "shuffledp.mechanisms.hadamard.ShuffledHadamard",
        "Acharya, Sun and Zhang 2019",
        "#000000",
        "h",
    ),
)

CATALOGUE: Final[dict[str, Entry]] = {each.name: each for each in _ENTRIES}


def get_entries(names: Iterable[str]) -> list[Entry]:
    """Look up mechanisms by their names.

    Raises
    ------
    InputError
        If one does not exist; the message lists those that do.
    """
    names = list(names)
    for name in names:
        if name not in CATALOGUE:
            raise InputError(f"there is no mechanism {name!r} (mechanisms: {', '.join(CATALOGUE)})")
    return [CATALOGUE[name] for name in names]


def get_estimator(mechanism: str, estimator: str) -> Estimator:
    """Look up an estimator by the two names that tables have for a series.

    Raises
    ------
    KeyError
        If there is none.
    """
    found = {each.name: each for each in CATALOGUE[mechanism].estimators}
    return found[estimator]


def own_calibrations(names: Iterable[str]) -> dict[str, str]:
    """Calibrations that are not at equal privacy, of any of the named mechanisms, and their words.

    Raises
    ------
    InputError
        As `get_entries`.
    """
    return {
        calibration: words
        for entry in get_entries(names)
        for calibration, words in entry.own_calibrations.items()
    }
