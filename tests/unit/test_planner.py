"""The page's planner: its own certified bound, against the accountant."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
from planned import planned
from shuffledp.mechanisms.discrete_laplace import DiscreteLaplaceParameters
from shuffledp.mechanisms.gaussian import GaussianParameters
from shuffledp.mechanisms.krr import KRRParameters
from shuffledp.mechanisms.registry import MECHANISMS
from shuffledp.mechanisms.shuffler_dummies import ShufflerDummiesParameters
from shuffledp.mechanisms.user_dummies import UserDummiesParameters
from shuffledp.page import planner
from shuffledp.page.planner import LOSS, PLANNED, planner_data

SCRIPTS = Path(planner.__file__).parent / "scripts"
PARAMETERS = {
    "gaussian": GaussianParameters,
    "discrete-laplace": DiscreteLaplaceParameters,
    "krr": KRRParameters,
    "user-dummies": UserDummiesParameters,
    "shuffler-dummies": ShufflerDummiesParameters,
}
# README's cities, docs/choosing.md's example; corners of the planner's ranges.
SETTINGS = [
    (100_000, 408, 1, 1e-6),
    (8_000, 192, 0.5, 1e-8),
    (1_000, 16, 0.1, 1e-6),
    (100, 100_000, 0.05, 1e-10),
    (1_000_000_000, 4, 4, 1e-4),
]


@pytest.fixture(scope="module")
def browser_page():
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    with sync_api.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_content("<main></main>")
        for name in ("common", "planner"):
            page.add_script_tag(path=SCRIPTS / f"{name}.js")
        yield page
        browser.close()


@pytest.fixture
def form(browser_page):
    browser_page.evaluate(
        "data => mountPlanner(document.querySelector('main'), data)", planner_data()
    )
    return browser_page


def plans(page, n, k, eps, delta):
    asked = {"n": n, "k": k, "eps": eps, "delta": delta}
    found = page.evaluate("([data, asked]) => planFor(data, asked)", [planner_data(), asked])
    return {plan["mechanism"]: plan for plan in found}


def parameters(plan):
    """As the mechanism's own, from the words on the page."""
    values = dict(each.split("=") for each in plan["parameters"].split(", "))
    whole = {"chances", "nu"}
    return PARAMETERS[plan["mechanism"]](
        **{name: int(value) if name in whole else float(value) for name, value in values.items()}
    )


def check(page, n, k, eps, delta):
    """What the page proposes keeps the target, and errs hardly more than what is best."""
    found = plans(page, n, k, eps, delta)
    best = planned(n, k, eps, delta)
    assert found.keys() == set(PLANNED)
    for name, plan in found.items():
        kept = MECHANISMS[name].log_delta(eps, n, k, parameters(plan))
        assert kept <= math.log(delta), (name, n, k, eps, delta)
        # Rounded to whole dummies both are the same, but for the last digits of floats.
        for shown, least in [
            (plan["cellError"], best[name].cell_error),
            (plan["distance"], best[name].distance),
        ]:
            assert 1 - 1e-9 <= shown / least <= 1 + LOSS, (name, n, k, eps, delta)
        assert plan["messages"] == pytest.approx(best[name].messages, rel=LOSS)
        assert plan["trust"] == MECHANISMS[name].trust
    assert [plan["distance"] for plan in found.values()] == sorted(
        plan["distance"] for plan in found.values()
    )


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_the_page_keeps_the_target_at_hardly_more_than_the_least_error(browser_page, setting):
    check(browser_page, *setting)


def drawn(seed, number):
    rng = np.random.default_rng(seed)
    data = planner_data()

    def log_uniform(least, most):
        return round(math.exp(rng.uniform(math.log(least), math.log(most))))

    for _ in range(number):
        n = log_uniform(data["n"]["least"], data["n"]["most"])
        k = log_uniform(data["k"]["least"], data["k"]["most"])
        yield n, k, float(rng.choice(data["eps"])), float(rng.choice(data["delta"]))


def test_random_settings_keep_the_target(browser_page):
    for setting in drawn(1, 3):
        check(browser_page, *setting)


@pytest.mark.slow
def test_many_random_settings_keep_the_target(browser_page):
    for setting in drawn(2, 15):
        check(browser_page, *setting)
