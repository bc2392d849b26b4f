"""What may be typed after the commands of a collection; the standard library alone."""

from typing import Any, Final

from shuffledp.cli.words import decimal, real, whole

_CAMPAIGN: Final[dict[str, dict[str, Any]]] = {
    "--campaign": {"required": True, "metavar": "FILE", "help": "campaign.json"}
}
_ROUND: Final[dict[str, dict[str, Any]]] = {
    "--round": {"type": whole, "default": 1, "help": "number of the round, from 1 on (default 1)"}
}
_STORE: Final[dict[str, Any]] = {"metavar": "STORE", "help": "the mixer's file of a round"}

# Of each command: what it does, and its options.
ROLE_COMMANDS: Final[dict[str, tuple[str, dict[str, dict[str, Any]]]]] = {
    "campaign new": (
        "experimental - plan a collection from people; writes the public campaign, the "
        "participants' folder, tickets for the issuer, tokens for the mixer and a key of each "
        "round for the analyst; prints what each view has (docs/collect.md)",
        {
            "--cells": {
                "required": True,
                "metavar": "FILE",
                "help": "GeoJSON, a polygon for each cell",
            },
            "--eps": {"type": real, "required": True, "help": "of all rounds together"},
            "--delta": {"type": decimal, "required": True, "help": "of all rounds together"},
            "--at-least": {
                "type": whole,
                "required": True,
                "help": "fewest respondents of a round, those who collude among them: it cannot "
                "be closed with fewer",
            },
            "--colluding": {
                "type": whole,
                "default": 0,
                "help": "how many of these the promise does not count on (default 0)",
            },
            "--people": {"type": whole, "help": "tickets (default: twice --at-least)"},
            "--rounds": {"type": whole, "default": 1, "help": "how often they report (default 1)"},
            "--mechanism": {
                "default": "two-servers",
                "metavar": "NAME",
                "help": "two-servers (default), signed-dummies, user-dummies, krr or mixdump",
            },
            "--slots": {"type": whole, "help": "an envelope's messages, of signed dummies"},
            "--basemap": {
                "metavar": "FILE",
                "help": "GeoJSON of districts, water and rivers, drawn under the cells",
            },
            "--title": {"default": "Where people are", "help": "what people are told it is"},
            "--question": {"default": "Where are you now?", "help": "what people are asked"},
            "--address": {
                "default": "http://127.0.0.1:8000",
                "metavar": "URL",
                "help": "of the mixer (default http://127.0.0.1:8000)",
            },
            "--output": {"required": True, "metavar": "FOLDER", "help": "must not exist"},
        },
    ),
    "campaign check": (
        "experimental - find the tables and the promise of a campaign anew; prints what each view "
        "has with the fewest respondents, or with those who came",
        {
            "campaign": {"metavar": "FILE", "help": "campaign.json"},
            "--counts": {
                "nargs": "+",
                "metavar": "COUNTS",
                "help": "what 'open' wrote of some rounds: what their respondents have together",
            },
        },
    ),
    "report": (
        "experimental - take part in a round: the record is randomised and sealed, written down, "
        "and sent until the mixer has counted it; without a record what waits is sent",
        {
            **_CAMPAIGN,
            "--ticket": {"required": True, "metavar": "FILE", "help": "a line: NAME.TICKET"},
            **_ROUND,
            "--cell": {"type": whole, "help": "the record, from 0 on, or"},
            "--point": {
                "nargs": 2,
                "type": real,
                "metavar": ("LONGITUDE", "LATITUDE"),
                "help": "in degrees: the record is the cell that holds it (cells.geojson must lie "
                "beside the campaign)",
            },
            "--folder": {
                "default": "device",
                "metavar": "FOLDER",
                "help": "of this device alone: what waits, and the rounds it took part in "
                "(default: device)",
            },
        },
    ),
    "mixer new": (
        "experimental - make the mixer's store of a round",
        {
            "store": _STORE,
            **_CAMPAIGN,
            **_ROUND,
            "--tokens": {"required": True, "metavar": "FILE", "help": "of this round"},
        },
    ),
    "mixer serve": (
        "experimental - take envelopes until told to stop; put a proxy with TLS in front",
        {
            "store": {**_STORE, "nargs": "+"},
            "--host": {"default": "127.0.0.1", "help": "where to listen (default 127.0.0.1)"},
            "--port": {"type": whole, "default": 8000, "help": "default 8000; 0: a free one"},
        },
    ),
    "mixer close": (
        "experimental - close a round: add the mixer's dummies, write the permuted messages for "
        "the analyst, then delete them; the server may go on. Several stores of a round, whose "
        "tokens differ, are closed into one batch",
        {
            "store": {**_STORE, "nargs": "+"},
            "--output": {"required": True, "metavar": "FOLDER", "help": "must not exist"},
        },
    ),
    "open": (
        "experimental - open a batch, add the analyst's noise, write the counts and destroy the "
        "round's key",
        {
            "batch": {"metavar": "BATCH", "help": "folder that 'mixer close' wrote"},
            **_CAMPAIGN,
            "--key": {"required": True, "metavar": "FILE", "help": "the key of this round"},
            "--output": {"required": True, "metavar": "FILE", "help": "must not exist"},
            "--workers": {"type": whole, "help": "processes (default: one a core)"},
        },
    ),
    "estimate": (
        "experimental - number of respondents in each cell: unbiased estimate, standard error, 95 "
        "% intervals of each alone (low, high) and of all together (low_all, high_all), and the "
        "nearest numbers that are possible (projected); or in each of some regions",
        {
            "counts": {"metavar": "COUNTS", "help": "what 'open' wrote"},
            **_CAMPAIGN,
            "--regions": {
                "metavar": "FILE",
                "help": "csv with columns region and cell: estimate regions instead",
            },
            "--map": {"metavar": "FILE", "help": "draw the estimates (png, svg or pdf)"},
            "--page": {
                "metavar": "FILE",
                "help": "write a page of map, numbers and promise (html); it asks for nothing",
            },
        },
    ),
}
GROUPS: Final = {
    "campaign": "experimental - plan a collection from people",
    "mixer": "experimental - the mixer of a collection",
}
