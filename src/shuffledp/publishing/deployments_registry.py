"""Describe a publication for the OpenDP Deployments Registry.

The registry (github.com/opendp/deployments-registry-data) has a schema; this module has been
checked against that of commit 3e9c812a924cf01d228f26f6c462c59c391c3f2a. What the software cannot
know, such as the publisher's name, is marked for completion.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

COMMIT: Final = "3e9c812a924cf01d228f26f6c462c59c391c3f2a"
_TO_COMPLETE: Final = "TO BE COMPLETED"


def registry_record(statement: Mapping[str, Any]) -> str:
    """Return the statement of a publication as a draft for the registry, in YAML."""
    guarantee, unit, cells = statement["guarantee"], statement["unit"], statement["cells"]
    parameters = {
        name: guarantee[key]
        for name, key in (("epsilon", "eps"), ("delta", "delta"), ("rho", "rho"))
        if guarantee[key]
    }
    variant = "Approximate DP" if guarantee["delta"] else "Pure DP"
    budget = statement["all_publications"]
    period = statement["period"]
    windows = "" if period is None else f" from {period['from']} to {period['to']}"
    record = {
        "url_slug": re.sub(r"[^a-z0-9]+", "-", statement["title"].lower()).strip("-") or "map",
        "status": "Draft",
        "tier": 3,
        "deployment": {
            "basic": {
                "name": statement["title"],
                "data_curators": [_TO_COMPLETE],
                "description": f"Counts of records in {cells['number']:,} cells{windows}.",
                "intended_use": _TO_COMPLETE,
                "data_product_type": "Summary statistics",
                "data_product_region": _TO_COMPLETE,
                "publication_date": statement["published"],
            },
            "dp_variant": {
                "variant_name": "Zero-concentrated DP" if guarantee["rho"] else variant,
                "data_domain": "Any number of records, each with at most one cell and window.",
                "unprotected_quantities": " ".join(statement["not_protected"]),
            },
            "privacy_loss": {
                "privacy_unit": unit["protected"],
                "privacy_unit_details": f"{guarantee['neighbours'].capitalize()}. {unit['bound']}",
                "privacy_parameters": parameters,
                "privacy_parameters_details": "If one unit is replaced: eps = "
                f"{guarantee['eps_for_replacement']}, delta = "
                f"{guarantee['delta_for_replacement']}.",
            },
            "deployment_model": {
                "model_name": "Central",
                "actors": f"Trusted: {statement['trust']['trusted']}. Protected from: "
                f"{statement['trust']['protected_from']}.",
                "release_type": "One release",
                "data_source_type": "Static",
                "access_type": "Non-interactive",
            },
            "accounting": {
                "post_processing": statement["post_processing"],
                "composition": f"A ledger limits all publications about the same people to eps = "
                f"{budget['eps']}, delta = {budget['delta']}; {budget['measure']} = "
                f"{budget['spent']} of {budget['total']} was spent with this one.",
            },
            "implementation": {
                "mechanisms": f"{statement['mechanism']['name']} noise. "
                f"{statement['mechanism']['sampler']}. Software: shuffledp "
                f"{statement['software']['shuffledp']}, OpenDP {statement['software']['opendp']}.",
            },
            "administrative": {"registry_authors": [_TO_COMPLETE]},
        },
    }
    return yaml.safe_dump(record, sort_keys=False, allow_unicode=True, width=100)
