"""Every file has its line on one of three pages, and what the pages link is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = {"spy_env": "README.md", "trainers": "trainers/README.md", "benchmarks": "benchmarks/README.md"}


def linked(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = (target.partition("#")[0] for target in re.findall(r"\]\(([^)]+)\)", text))
    return {((ROOT / page).parent / target).resolve() for target in targets if target and "://" not in target}


@pytest.mark.parametrize("package", PAGES)
def test_every_file_has_its_line(package):
    files = {file for file in (ROOT / package).rglob("*.py") if file.read_text(encoding="utf-8").count("\n") > 3}
    assert len(files) > 15
    names = {str(file.relative_to(ROOT)) for file in files - linked(PAGES[package]) if file.name != "__init__.py"}
    assert not names


@pytest.mark.parametrize("page", PAGES.values())
def test_every_link_leads_somewhere(page):
    assert {str(target) for target in linked(page) if not target.exists()} == set()
