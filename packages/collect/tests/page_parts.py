"""Cells and a base map for the tests of pages."""

from pages import geojson, square

PHONE = {"width": 360, "height": 740}
SEA = "Sea: </script><i>nobody's</i>"


def cells(rows, columns, name):
    """Return cells from the south-west, the first of which has a name."""
    return geojson(
        ("Polygon", square(c, 50 + r, c + 1, 51 + r), {"name": name} if r + c == 0 else {})
        for r in range(rows)
        for c in range(columns)
    )


def basemap(rows, columns):
    """Return a base map with a sea, a district over two columns, and a river across all."""
    return geojson(
        [
            ("Polygon", square(-9, 40, 9, 60), {"kind": "water", "attribution": SEA}),
            ("Polygon", square(0, 50, 2, 50 + rows), {"name": "<b>West</b> End"}),
            ("LineString", [[0, 50.2], [columns, 49.8 + rows]], {"name": "Flow"}),
        ]
    )
