"""The pages of OpenEnv, verl and verifiers: what they link is there, what they run runs, what they show is Python."""

import re
import shlex
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "trainers" / name / "README.md" for name in ("openenv", "verl", "verifiers")]


def ids(page):
    return page.parent.name


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_file_that_is_linked_exists_and_every_file_is_named(page):
    text = page.read_text(encoding="utf-8")
    linked = [target for target in re.findall(r"\]\(([^)#:]+)\)", text) if not target.startswith("http")]
    for target in linked:
        assert (page.parent / target).exists(), target
    files = {file.name for file in page.parent.glob("*.py")} - {"__init__.py"}
    assert files <= {Path(target).name for target in linked}
    for named in re.findall(r"`(tests/[^`]+)`", text):
        assert (ROOT / named).exists(), named


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_what_a_page_shows_is_python(page):
    for block in re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        compile(block, str(page), "exec")


@pytest.mark.parametrize("name", ["openenv", "verl"])
def test_the_dry_runs_of_a_page_run(name, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if name == "verl":
        pytest.importorskip("tyro", reason="its command line needs it")
        from trainers.verl.command import main
    else:
        from trainers.openenv.command import main
    text = (ROOT / "trainers" / name / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        words = shlex.split(block.replace("\\\n", " "))
        assert main(words[2:]) == 0
    assert capsys.readouterr().out
    assert not list(tmp_path.iterdir())


def test_names_that_verls_command_line_cannot_read_are_refused():
    pytest.importorskip("tyro", reason="its command line needs it")
    from trainers.verl.command import main

    with pytest.raises(ValueError, match="can't read; choose another name"):
        main(["--ckpt.output_dir", "outputs/a=b, c", "--dry-run"])
