"""Hooks of mkdocs.yml, with which `mkdocs build` makes a site of docs/.

The pages are written for a code host first. The hooks add files from elsewhere in the clone, adjust
links between pages, and fill the reference.
"""

import ast
import re
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "shuffledp"

# Files outside docs/ that pages link to, with their places on the site.
ADDED = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "CITATION.cff": "CITATION.cff",
    "CONTRIBUTING.md": "contributing.md",
    "config/README.md": "configuration.md",
    "resources/basemaps/README.md": "basemaps.md",
}
SOURCES = {place: name for name, place in ADDED.items()}
MOVED = ADDED | {f"docs/{name}.ipynb": f"{name}.md" for name in ("tutorial", "python")}

# The tutorials with their output and pictures, written by `make docs`.
TUTORIALS = ROOT / "build" / "docs"
NOT_RUN = {
    f"{name}.md": f"# {title}\n\n`make docs` runs `docs/{name}.ipynb` and shows it.\n"
    for name, title in (
        ("tutorial", "Your city in ten minutes"),
        ("python", "A private map in Python"),
    )
}

# The theme's search dialog.
SEARCH = 'data-md-component="search" role="dialog"'

# The dotted name of a module of the package or of one of its members.
NAMED = re.compile(r"(?<!\[)`(?:shuffledp\.)?([a-z_]+(?:\.\w+)*\.(?!py`)\w+)`")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add a page for each package to the menu."""
    (reference,) = (entry["Reference"] for entry in config.nav or [] if "Reference" in entry)
    pages = [{PurePosixPath(place).stem: place} for place in _reference_pages()]
    reference[0] = {"Python and the command": ["reference/index.md", *pages]}
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the files that are not in docs/."""
    copied = {place: ROOT / name for name, place in ADDED.items()}
    copied |= {str(path.relative_to(TUTORIALS)): path for path in TUTORIALS.rglob("*.*")}
    written = NOT_RUN | _reference_pages()
    for place, text in written.items():
        if place not in copied:
            files.append(File.generated(config, place, content=text))
    for place, path in copied.items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Adjust links, and link dotted names to the reference."""
    markdown = _with_links_of_the_site(markdown, page.file.src_uri)
    return NAMED.sub(_with_reference, markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Name the search dialog for screen readers: the theme leaves it unnamed."""
    return output.replace(SEARCH, f'{SEARCH} aria-label="Search"')


def _reference_pages() -> dict[str, str]:
    """Return the text of a reference page for each package, by its place on the site."""
    pages = {}
    for package in sorted(path.parent for path in PACKAGE.rglob("__init__.py")):
        name = ".".join(package.relative_to(PACKAGE.parent).parts)
        modules = [path.stem for path in sorted(package.glob("*.py")) if path.stem[0] != "_"]
        blocks = [f"::: {name}.{module}\n" for module in modules]
        pages[f"reference/{name.removeprefix('shuffledp.')}.md"] = "\n".join(
            [f"# {name}\n", *blocks]
        )
    return pages


def _with_links_of_the_site(markdown: str, place: str) -> str:
    """Return a page whose relative links lead to the places of their targets on the site."""
    folder = PurePosixPath(SOURCES.get(place, f"docs/{place}")).parent

    def lead(link: re.Match[str]) -> str:
        name = normpath(folder / link[1])
        there = MOVED.get(name, name.removeprefix("docs/"))
        return f"]({relpath(there, PurePosixPath(place).parent)}{link[2]})"

    return re.sub(r"\]\(([^)#:\s]+)((?:#[^)\s]*)?)\)", lead, markdown)


def _with_reference(name: re.Match[str]) -> str:
    """Return a dotted name as a link to its class or function, or else to its module."""
    parts = name[1].split(".")
    for size in range(len(parts), 0, -1):
        file = PACKAGE.joinpath(*parts[:size]).with_suffix(".py")
        if file.is_file():
            kinds = (ast.ClassDef, ast.FunctionDef)
            tree = ast.parse(file.read_text(encoding="utf-8"))
            defined = {node.name for node in tree.body if isinstance(node, kinds)}
            path = parts[: size + (parts[size:] != [] and parts[size] in defined)]
            return f"[{name[0]}][shuffledp.{'.'.join(path)}]"
    return name[0]
