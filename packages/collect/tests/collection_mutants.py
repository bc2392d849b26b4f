"""Mutants of a collection's roles, which the audit must catch, in Python and JavaScript."""

import os
from dataclasses import replace
from unittest import mock

from shuffledp_collect import device
from shuffledp_collect.laws import Laws, make_laws
from shuffledp_collect.messages import BLANK, PLAIN, SEALED
from shuffledp_collect.tables import Table

_NOTHING = Table(0, ())


# --- Servers: campaigns --------------------------------------------------------------------


def without_servers(made):
    """Neither of them draws."""
    return without_analyst(without_mixer(made))


def without_analyst(made):
    """The analyst's noise is left out."""
    return replace(made, laws=replace(made.laws, analyst=_NOTHING))


def without_mixer(made):
    """The mixer's dummies are left out."""
    return replace(made, laws=replace(made.laws, mixer=_NOTHING))


def drawn_twice():
    """Randomness of a draw is used again for the next one of the same table."""
    kept, original = {}, Table.draw

    def draw(self, random=os.urandom):
        taken = kept.pop(self.thresholds, None)
        if taken is None:
            kept[self.thresholds] = taken = random(16)
        return original(self, lambda _: taken)

    return mock.patch.object(Table, "draw", draw)


# --- Devices in Python: context managers ---------------------------------------------------


def _messages(drawn):
    """Replace the function that draws messages; it gets the honest function as well."""
    original = device.draw_messages
    return mock.patch.object(device, "draw_messages", lambda *given: drawn(original, *given))


def _laws(change):
    """A mutant: devices draw by other laws of a campaign."""
    known = {}

    def drawn(draw, made, cell):
        if made.text not in known:
            known[made.text] = replace(made, laws=change(made))
        return draw(known[made.text], cell)

    return lambda: _messages(drawn)


def _doubled(made):
    """Laws for twice as many people as there are."""
    parameters = made.released.parameters
    given = replace(parameters, smallest=2 * parameters.smallest)
    return replace(make_laws(made.mechanism, given, made.cells), slots=made.laws.slots)


def _without_minus(made):
    """Neither dummies that are subtracted, nor pairs."""
    return replace(made.laws, device=tuple(n for n in made.laws.device if n.sign == "plus"))


def _clear():
    def seal(_, __, some):
        return [each + bytes(SEALED - PLAIN) for each in some]

    return mock.patch.object(device, "seal", seal)


PYTHON = {
    "no noise": _laws(lambda made: Laws(made.laws.slots)),
    "M doubled": _laws(_doubled),
    "minus messages dropped": _laws(_without_minus),
    "a seed": lambda: _messages(lambda draw, *given: draw(*given, lambda count: b"\x5a" * count)),
    "biased cells": lambda: mock.patch.object(device, "draw_below", lambda *_: 0),
    "not padded": lambda: _messages(lambda draw, *given: [x for x in draw(*given) if x != BLANK]),
    "a length that tells the cell": lambda: _messages(
        lambda draw, made, cell: draw(made, cell) + [BLANK] * (cell == 0)
    ),
    "not sealed": _clear,
}

# --- Devices in JavaScript: texts and what comes in their place ----------------------------

_CLUMPS = "let clumps = drawFrom(number, random); clumps > 0; clumps--"
_CELL = "const cell = drawBelow(campaign.cells.count, random);"
_PADDING = "while (drawn.length < campaign.slots) drawn.push(message(0));"
_RANDOM = "export const systemRandom = (count) => crypto.getRandomValues(new Uint8Array(count));"
_LENGTH = "if (envelope.length !== TOKEN_BYTES + NONCE_BYTES + SEALED_BYTES * campaign.slots)"
JAVASCRIPT = {
    "no noise": [(_CLUMPS, "; false; ")],
    "M doubled": [(_CELL, f"if (random(1)[0] < 128) continue; {_CELL}")],
    "minus messages dropped": [
        (_CLUMPS, _CLUMPS.replace("clumps >", 'sign === "plus" && clumps >'))
    ],
    "a seed": [
        (_RANDOM, "export const systemRandom = (count) => new Uint8Array(count).fill(0x5a);")
    ],
    "biased cells": [(_CELL, "const cell = 0;")],
    "not padded": [(_PADDING, ""), (_LENGTH, "if (false)")],
    "a length that tells the cell": [
        (_PADDING, f"{_PADDING} if (cell === 0) drawn.push(message(0));"),
        (_LENGTH, "if (false)"),
    ],
    "not sealed": [
        (
            "sealed.push(await seal(key, info, message));",
            f"sealed.push(joined(message, new Uint8Array({SEALED - PLAIN})));",
        ),
    ],
}
