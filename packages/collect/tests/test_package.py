"""Rules for the package: what it imports, and the tests that its promises name."""

import ast
import re

import pytest
from collect_guide import PACKAGE
from shuffledp.mechanisms.protocol import CELL_BYTES, envelope_bytes
from shuffledp_collect.messages import BLANK, HEAD, PLAIN, SEALED, plus

# Everything that the package uses of the library. Keep the list short: the package is frozen.
IMPORTS = {
    "accounting.accountant": {"certified_curve", "distinct_rounds"},
    "accounting.conventions": {"log_of_delta"},
    "accounting.curve": {"UpperCurve", "add_total_variation", "pointwise_minimum"},
    "accounting.participation": {"with_participation"},
    "accounting.setting": {"Setting"},
    "errors": {"InputError"},
    "figures.basemap": {"backdrop"},
    "figures.cell_shapes": {"CellShapes"},
    "figures.map_panels": {
        *("COUNT_COLOURS", "PLAIN_NUMBERS", "draw_attribution", "draw_frame", "draw_scale_bar"),
        *("draw_surroundings", "map_height"),
    },
    "figures.style": {"FULL_WIDTH", "format_eps", "local_style", "new_figure"},
    "geography.layers": {"Shape"},
    "geography.regions": {"read_shapes"},
    "mechanisms.catalogue": {"CATALOGUE", "VIEWS", "get_entries"},
    "mechanisms.estimators": {"project_simplex"},
    "mechanisms.registry": {"get_mechanisms", "with_options"},
    "mechanisms.target_calibration": {"Released", "calibrated", "views_of_rounds"},
    "numerics.arrays": {"Floats", "Integers"},
    "page.data": {"columns"},
    "page.maps": {"districts_of", "rings_of", "surroundings"},
    "page.render": {"page_part", "render_template"},
    "page.sentences": {"best_guess", "percent", "plain", "rounded_up", "short"},
    "pipeline.files": {"file_sha256", "replacing"},
    "version": {"find_version"},
}


def test_the_package_imports_these_names_of_the_library_only():
    found = {}
    for path in (PACKAGE / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in getattr(node, "names", ()) if hasattr(alias, "name")]
            if isinstance(node, ast.Import):
                assert not any(name.partition(".")[0] == "shuffledp" for name in names), path
            elif isinstance(node, ast.ImportFrom) and node.module.startswith("shuffledp."):
                found.setdefault(node.module.partition(".")[2], set()).update(names)
    assert found == IMPORTS


def test_the_library_states_the_size_of_an_envelope():
    messages = [plus(7), BLANK, BLANK]
    assert envelope_bytes(len(messages)) == HEAD + len(messages) * SEALED
    assert CELL_BYTES == PLAIN


PROMISES = (PACKAGE / "tests" / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "row",
    PROMISES.partition("| promise | tests |\n|---|---|\n")[2].partition("\n\n")[0].splitlines(),
)
def test_each_promise_has_its_tests(row):
    named = re.findall(r"`(test_\w+)`", row)
    text = "".join(path.read_text() for path in (PACKAGE / "tests").glob("test_*.py"))
    assert named
    assert [name for name in named if not re.search(rf"^def {name}\(", text, re.M)] == []
