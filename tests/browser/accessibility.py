"""Check a page with axe, the checker of accessibility."""

import json
from pathlib import Path

AXE = Path(__file__).parent / "vendor" / "axe.min.js"


def assert_accessible(page):
    """Assert that axe finds nothing on a page, whose shading of scrolled parts is removed."""
    # axe cannot determine the contrast of text on the shading, which is only at the sides.
    page.locator(".scroll").evaluate_all(
        "all => all.forEach((one) => { one.style.background = 'none'; })"
    )
    page.evaluate(AXE.read_text(encoding="utf-8"))
    # The rule about the size of touch targets is off by default.
    rules = {"target-size": {"enabled": True}}
    result = page.evaluate("rules => axe.run(document, { rules })", rules)
    assert {"color-contrast", "target-size"} <= {rule["id"] for rule in result["passes"]}
    violations = [
        (rule["id"], rule["help"], [node["html"][:120] for node in rule["nodes"][:3]])
        for rule in result["violations"]
    ]
    assert not violations, json.dumps(violations, indent=1)
