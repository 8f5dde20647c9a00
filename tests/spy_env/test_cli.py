"""The ``spyrl`` command: finds its sub-commands, and tells a user's errors without a traceback."""

import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from spy_env import cli, write_games
from tests.spy_env.doors import dealt

ROOT = Path(__file__).parents[2]

COMMANDS = {
    "good": "def main(argv): print('argv', argv)",
    "seven": "def main(argv): return 7",
    "wrong": "def main(argv): raise ValueError('no corpus; give one with --corpus')",
    "fileless": "def main(argv): raise FileNotFoundError('no such file')",
    "stopped": "def main(argv): raise KeyboardInterrupt",
    "bug": "def main(argv): raise ZeroDivisionError('a bug')",
    "lacking": "import a_package_that_nobody_has\ndef main(argv): pass",
    "verl": "import a_package_that_nobody_has\ndef main(argv): pass",
}


@pytest.fixture(autouse=True)
def installed(tmp_path, monkeypatch):
    """These commands are installed, and no others."""
    points = {}
    for name, source in COMMANDS.items():
        (tmp_path / f"spyrl_{name}_command.py").write_text(source)
        points[name] = EntryPoint(name, f"spyrl_{name}_command:main", cli.GROUP)
    points["replay"] = EntryPoint("replay", "spy_env.viewer.replay:main", cli.GROUP)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(cli, "commands", lambda: points)


@pytest.mark.parametrize("arguments", [[], ["-h"], ["--help"]])
def test_help_lists_the_commands(capsys, arguments):
    assert cli.main(arguments) == 0
    assert "usage: spyrl {good,seven,wrong," in capsys.readouterr().out


def test_a_command_gets_the_other_arguments_and_gives_the_exit_code(capsys):
    assert cli.main(["good", "a", "--b=c"]) == 0
    assert capsys.readouterr().out == "argv ['a', '--b=c']\n"
    assert cli.main(["seven"]) == 7


def test_arguments_default_to_the_command_lines(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["spyrl", "good", "x"])
    assert cli.main() == 0
    assert capsys.readouterr().out == "argv ['x']\n"


def failed(capsys, *arguments):
    code = cli.main(arguments)
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" not in err
    return code, err


def test_an_unknown_command_is_an_error_that_lists_the_known(capsys):
    code, err = failed(capsys, "dance")
    assert code == 2
    assert err.startswith("spyrl: no command 'dance'; choose one of good, seven,")


def test_a_value_error_is_shown_without_a_traceback(capsys):
    assert failed(capsys, "wrong") == (2, "spyrl wrong: no corpus; give one with --corpus\n")


def test_a_failure_of_the_world_is_shown_without_a_traceback(capsys):
    assert failed(capsys, "fileless") == (2, "spyrl fileless: no such file\n")


def test_control_c_is_no_traceback_either(capsys):
    assert failed(capsys, "stopped") == (130, "spyrl stopped: stopped\n")


def test_a_bug_keeps_its_traceback():
    with pytest.raises(ZeroDivisionError):
        cli.main(["bug"])


def test_a_command_whose_dependency_is_missing_tells_the_extra(capsys):
    code, err = failed(capsys, "lacking")
    assert code == 2
    assert err == "spyrl lacking needs 'a_package_that_nobody_has': pip install -e '.[train]'\n"


def test_the_extra_of_a_command_with_its_own_is_told(capsys, monkeypatch):
    monkeypatch.setattr(cli, "EXTRAS", {"lacking": "eval"})
    assert failed(capsys, "lacking")[1].endswith("pip install -e '.[eval]'\n")


def test_verls_users_are_told_no_extra_that_changes_what_verl_pins(capsys):
    assert failed(capsys, "verl")[1].endswith("pip install -e '.[verl]'\n")


def test_replay_shows_games_and_explains_what_is_wrong(tmp_path, capsys):
    write_games(tmp_path / "games.jsonl", [dealt("all", "fresh")])
    assert cli.main(["replay", str(tmp_path / "games.jsonl"), "--list"]) == 0
    assert "fresh" in capsys.readouterr().out
    code, err = failed(capsys, "replay", str(tmp_path / "none.jsonl"))
    assert code == 2
    assert err.startswith("spyrl replay: no games at ")
    code, err = failed(capsys, "replay", str(tmp_path / "games.jsonl"), "--game", "9")
    assert code == 2
    assert "no game '9'" in err


def test_the_project_declares_replay():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"spyrl": "spy_env.cli:main"}
    assert project["entry-points"][cli.GROUP]["replay"] == "spy_env.viewer.replay:main"


def test_commands_are_found_by_entry_point(tmp_path):
    # In a process of its own, with a distribution that declares one: what an installed package is to Python.
    about = tmp_path / "other_1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{cli.GROUP}]\nother = spyrl_good_command:main\n")
    paths = [str(tmp_path), str(ROOT)]
    code = f"import sys; sys.path[:0] = {paths!r}; from spy_env.cli import main; sys.exit(main(['other', 'x']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "argv ['x']\n", "")
