"""What the page's planner needs to know: mechanisms, targets to choose from, ranges.

The numbers themselves are computed in the page, by ``scripts/planner.js`` (docs/accounting.md).
"""

from typing import Any, Final

from shuffledp.mechanisms.catalogue import get_entries
from shuffledp.page.sentences import trust_kind

# Those with the least error for who is trusted with what (docs/choosing.md).
PLANNED: Final = (
    "gaussian",
    "discrete-laplace",
    "krr",
    "user-dummies",
    "shuffler-dummies",
    "two-servers",
)
# How much larger a predicted error may be than that of `shuffledp compare`, relative.
LOSS: Final = 0.001


def planner_data() -> dict[str, Any]:
    """Data of the planner, serialisable as JSON.

    Returns
    -------
    ``mechanisms``: a name, a label, who must be trusted and the kind of trust
    (`shuffledp.page.sentences.trust_kind`), of each; ``eps`` and ``delta``: the
    targets to choose from; ``n`` and ``k``: the ``least`` and the ``most`` that the planner takes;
    ``start``: what is shown first; ``loss``: `LOSS`.
    """
    return {
        "mechanisms": [
            {
                "mechanism": each.name,
                "label": each.label,
                "trust": each.trust,
                "kind": trust_kind(each),
            }
            for each in get_entries(PLANNED)
        ],
        "eps": [0.05, 0.1, 0.25, 0.5, 1, 2, 4],
        "delta": [1e-4, 1e-5, 1e-6, 1e-8, 1e-10],
        "n": {"least": 100, "most": 1_000_000_000},
        # With two or three cells the accountant knows more than the bound in the page.
        "k": {"least": 4, "most": 100_000},
        "start": {"n": 100_000, "k": 408, "eps": 1, "delta": 1e-6},
        "loss": LOSS,
    }
