"""Runs looked at: what is missing stays missing, a run that is going on or broken is read as far as it goes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from spy_env import Rules, deal, write_games
from spy_env.diagnostics import PROBES
from tests.simulated_games import english, games
from trainers.inspection.command import main
from trainers.inspection.diagnosis import judge
from trainers.inspection.figures import FIGURES, MISSING, aligned, ends, rows_of, show
from trainers.inspection.page import DASHES, Series, line_chart, page, stage_bands, ticks
from trainers.inspection.runs import read_runs

ROOT = Path(__file__).parents[3]
ITERATIONS, A_STEP = 6, 8


def longer(text, rng):
    return f"{text} {text}"


def make_run(folder, spy_writes=None, steps=ITERATIONS, left_out=(), players=4):
    """A run's folder as every trainer writes it."""
    folder.mkdir(parents=True)
    played = list(games(steps * A_STEP, folder.name, spy_writes or (lambda text, rng: text), players=players))
    rows = []
    for step in range(1, steps + 1):
        write_games(folder / "games" / f"step_{step:06d}.jsonl", played[(step - 1) * A_STEP : step * A_STEP])
        row = {
            "step": step,
            "stage": "detection" if step % 3 else "performing",
            "game/accuracy/civilian": 0.2 + step / 20,
            "game/reward_performing/spy": -0.01 * step,
            "kl": 0.1 * step,
            "entropy": 1.5,
            "game/baseline/my/own/task.py/4/spy": 0.01,
        }
        rows.append({name: value for name, value in row.items() if name not in left_out})
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (folder / "config.json").write_text(json.dumps({"config": {"game": {"players": players}}}), encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two runs, one without KL, whose spies write twice as long."""
    place = tmp_path_factory.mktemp("runs")
    make_run(place / "plain")
    make_run(place / "sign", longer, left_out=("kl",))
    return place


def inspect(capsys, *arguments):
    assert main([str(argument) for argument in arguments]) == 0
    return capsys.readouterr().out


def paged(*folders):
    runs = read_runs(folders)
    return page(runs, {run.name: judge(run, 1000) for run in runs})


def test_the_table_tells_how_each_metric_began_and_how_it_stands(place):
    rows = {row[0]: row[1:] for row in rows_of(read_runs([place / "plain", place / "sign"]))}
    assert rows[""] == ["plain", "sign"]
    assert rows["iterations"] == ["6", "6"]
    assert rows["trained stages"][0] == "4 detection, 2 performing"
    assert rows["KL to the model before training: KL"] == ["0.200 > 0.500", MISSING]  # means of 1 to 3 and 4 to 6
    assert rows["Detection accuracy by voter's role: civilian"] == ["0.300 > 0.450"] * 2
    assert rows["Role baselines: task.py/4/spy"] == ["0.010 > 0.010"] * 2
    assert rows["chance"] == ["0.250"] * 2
    assert not any(name.startswith("Abstentions") for name in rows)


def test_a_metric_that_was_told_once_stands_as_it_is_and_one_that_is_no_number_is_missing(tmp_path):
    folder = make_run(tmp_path / "run")
    lines = [{"step": 7, "only": 0.5, "kl": None, "entropy": float("nan")}, {"step": 8, "kl": True}]
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
    (run,) = read_runs([folder])
    assert ends(run, "only") == [0.5]
    assert ends(run, "nowhere") == []
    assert len(run.curve("kl")) == len(run.curve("entropy")) == ITERATIONS


def test_warnings_come_first_on_the_page_and_name_their_run(place):
    text = paged(place / "plain", place / "sign")
    warnings = text[: text.index("<h2>Figures")]
    assert "<b>shortcut/length</b> in sign: a probe of length alone finds the spy" in warnings
    assert re.findall(r"<b>([^<]*)</b> in plain", warnings) == ["signal/none"]  # its spies write as everybody does


def test_a_page_without_warnings_says_so(tmp_path):
    assert "<p>No warnings.</p>" in paged(make_run(tmp_path / "short", steps=2))


def test_the_page_is_whole_and_fetches_and_runs_nothing(place):
    text = paged(place / "plain", place / "sign")
    tree = ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", text))
    assert len(list(tree.iter("svg"))) > 10
    assert "default-src 'none'" in text
    assert not re.search(r"<script|<link|<img|https?:|url\(|@import", text)


def test_each_run_has_one_colour_in_legend_and_figures_and_what_it_lacks_is_said(place):
    text = paged(place / "plain", place / "sign")
    legend = text[text.index('class="legend"') : text.index("</p>")]
    assert re.findall(r'class="run (r\d)".*?</svg>(\w+)<', legend) == [("r0", "plain"), ("r1", "sign")]
    kl = text[text.index("KL to the model") :].split("</figure>")[0]
    assert re.findall(r'"curve (r\d)"', kl) == ["r0"]
    assert "missing in sign" in kl
    entropy = text[text.index("<h3>Entropy") :].split("</figure>")[0]
    assert re.findall(r'"curve (r\d)"', entropy) == ["r0", "r1"]
    assert "missing" not in entropy


def test_figures_that_no_run_tells_are_named_and_not_drawn(place):
    text = paged(place / "plain")
    assert "<h3>Abstentions" not in text
    assert re.search(r"In none of these runs: [^<]*Abstentions", text)


def test_names_and_notes_cannot_write_into_the_page(tmp_path):
    evil = make_run(tmp_path / "<b onload=x>&", longer)
    with (evil / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"step": 9, "stage": '"><script>', 'game/baseline/<i>"': 1.0}) + "\n")
    text = paged(evil)
    assert "<script" not in text
    assert "<b onload" not in text
    assert "shortcut/length</b> in &lt;b onload" in text
    assert "<i>" not in text
    ElementTree.fromstring(re.sub(r"<!doctype html>|<meta[^>]*>", "", text))


@pytest.mark.parametrize("line", ['{"step": 4, "kl": 0.', '{"step": 4, "kl": 0.5}'])
def test_a_run_that_is_being_written_is_read_as_far_as_it_goes(capsys, tmp_path, line):
    folder = make_run(tmp_path / "run", steps=3)
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(line)
    with (folder / "games" / "step_000003.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"version": 1, "se')
    with pytest.warns(UserWarning, match="cut or broken"):
        out = inspect(capsys, folder)
    assert re.search(r"iterations +3\n", out)
    assert "last 24 games" in out
    assert "note" not in out


def test_a_broken_line_in_the_middle_is_told_and_the_others_are_read(capsys, tmp_path):
    folder = make_run(tmp_path / "run")
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    (folder / "metrics.jsonl").write_text("\n".join([*lines[:2], '{"st', "[1]", *lines[2:]]) + "\n", encoding="utf-8")
    out = inspect(capsys, folder)
    assert "metrics.jsonl:3 can't be read" in out
    assert "metrics.jsonl:4 can't be read" in out
    assert re.search(r"iterations +6\n", out)


def test_a_run_without_games_or_config_has_its_metrics(capsys, tmp_path):
    folder = make_run(tmp_path / "run")
    shutil.rmtree(folder / "games")
    (folder / "config.json").unlink()
    out = inspect(capsys, folder)
    assert "no config.json" in out
    assert "no game that is over" in out
    assert "KL to the model before training: KL" in out
    assert re.search(rf"chance +{MISSING}\n", out)


@pytest.mark.parametrize(
    ("text", "note"), [('{"a": 1}', "of a run"), ('{"config', "can't be read"), ("[]", "of a run")]
)
def test_a_config_that_is_none_is_told(capsys, tmp_path, text, note):
    folder = make_run(tmp_path / "run", steps=2)
    (folder / "config.json").write_text(text, encoding="utf-8")
    out = inspect(capsys, folder)
    assert f"config.json {note}" in out
    assert re.search(r"chance +0.250\n", out)  # from the games


@pytest.mark.parametrize("game", [[], {"players": "four"}])
def test_a_config_that_does_not_say_who_plays_leaves_it_to_the_games(capsys, tmp_path, game):
    folder = make_run(tmp_path / "run", steps=2)
    (folder / "config.json").write_text(json.dumps({"config": {"game": game}}), encoding="utf-8")
    assert re.search(r"chance +0.250\n", inspect(capsys, folder))


def test_a_folder_of_games_alone_is_judged_by_them(capsys, tmp_path):
    write_games(tmp_path / "played" / "games.jsonl", games(40, 1, longer))
    out = inspect(capsys, tmp_path / "played")
    assert "WARNING shortcut/length" in out
    assert re.search(r"chance +0.250\n", out)


def test_a_lone_file_of_games_is_judged_and_its_report_lies_beside_it(capsys, tmp_path):
    file = tmp_path / "played" / "games.jsonl"
    write_games(file, games(40, 1, longer))
    assert main([str(file), "--revote", "random"]) == 0
    assert "WARNING shortcut/length" in capsys.readouterr().out
    assert {made.name for made in (tmp_path / "played" / "inspection").iterdir()} == {"report.html", "revotes.jsonl"}


def test_games_that_cannot_be_read_cost_the_diagnosis_and_not_the_metrics(capsys, tmp_path):
    folder = make_run(tmp_path / "run")
    file = folder / "games" / "step_000002.jsonl"
    file.write_text(file.read_text(encoding="utf-8").replace('"version": 1', '"version": 99'), encoding="utf-8")
    out = inspect(capsys, folder)
    assert "its games can't be judged" in out
    assert "version 99" in out
    assert "<p>No warnings. Not all runs' votes could be judged.</p>" in paged(folder)
    assert re.search(r"iterations +6\n", out)


def test_only_the_last_games_are_probed_and_all_stretches_are_told(capsys, place):
    out = inspect(capsys, place / "plain", "--games", "10", "--page", place / "p.html")
    assert "last 10 games" in out
    assert "iterations 1 to 1: " in out
    assert "iterations 5 to 6: " in out
    assert (place / "p.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_each_stretch_looks_at_its_own_games(place, monkeypatch):
    (run,) = read_runs([place / "plain"])
    stretches = judge(run, 1000).stretches
    assert [(one.first, one.last, one.games) for one in stretches] == [
        (1, 1, 8),
        (2, 2, 8),
        (3, 3, 8),
        (4, 4, 8),
        (5, 6, 16),
    ]
    monkeypatch.setattr("trainers.inspection.diagnosis.MOST", 6)
    assert [one.games for one in judge(run, 1000).stretches] == [4, 4, 4, 4, 6]


def test_games_of_evaluations_are_not_taken_for_games_trained_on(tmp_path):
    folder = make_run(tmp_path / "run", steps=2)
    write_games(folder / "games" / "eval_000002.jsonl", games(3, "e"))
    write_games(
        folder / "games" / "step_000002.jsonl", [deal(english(1), "summarization", Rules(players=4), "unplayed")]
    )
    (run,) = read_runs([folder])
    assert [step for step, _ in run.games_by_step] == [1] * A_STEP + [2] * A_STEP


def test_runs_of_one_name_are_told_apart_and_a_run_named_twice_is_shown_once(tmp_path):
    one, other = make_run(tmp_path / "a" / "seed_0", steps=1), make_run(tmp_path / "b" / "seed_0", steps=1)
    assert [run.name for run in read_runs([one, other, one])] == ["a/seed_0", "b/seed_0"]


@pytest.mark.parametrize("arguments", [["--games", "0"], ["--revote_games", "3"]])
def test_numbers_that_leave_nothing_are_refused(place, arguments):
    with pytest.raises(ValueError, match=rf"{arguments[0]} is {arguments[1]}"):
        main([str(place / "plain"), *arguments])


def test_a_folder_that_holds_no_run_is_refused_with_the_way_out(tmp_path):
    with pytest.raises(ValueError, match=r"give a \.jsonl file of games, or a run's folder"):
        main([str(tmp_path)])


def test_looking_at_runs_needs_neither_torch_nor_rich(place):
    blocked = "import sys; sys.modules.update(dict.fromkeys(['torch', 'transformers', 'rich', 'tyro']));"
    program = f"{blocked} from trainers.inspection.command import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, str(place / "plain"), "--page", str(place / "q.html")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "report: " in ran.stdout


def test_on_a_terminal_a_table_is_drawn_and_nothing_in_it_commands_the_terminal(capsys, monkeypatch):
    pytest.importorskip("rich", reason="draws the table")
    rows = [["", "run [b]"], ["a\x1b[2J", "[i]0.5"]]
    show(rows, "title")
    assert capsys.readouterr().out == "title\n      run [b]\na[2J   [i]0.5\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    show(rows, "title")
    out = capsys.readouterr().out
    assert "run [b]" in out
    assert "a[2J" in out
    assert "[i]0.5" in out
    assert "│" in out


def test_games_that_a_run_removes_meanwhile_are_gone(tmp_path, monkeypatch):
    folder = make_run(tmp_path / "run", steps=2)
    gone = folder / "games" / "step_000000.jsonl"
    monkeypatch.setattr("trainers.inspection.runs.trained_files", lambda path: [gone, *sorted(path.glob("games/*"))])
    assert len(read_runs([folder])[0].games_by_step) == 2 * A_STEP


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-0.07, 0.06, [-0.05, 0, 0.05]),
        (1, 12, [5, 10]),
        (0, 3e-7, [0, 1e-7, 2e-7, 3e-7]),
        (4, 4, [4]),
    ],
)
def test_ticks_are_round_numbers_within_the_range(low, high, expected):
    assert ticks(low, high) == pytest.approx(expected)


def test_a_level_is_told_as_the_number_that_it_is():
    drawn = line_chart("votes", [Series("a", 0, 0, [(1, 0.5)])], marks=[0.0])
    assert "<title>0</title>" in drawn  # no correlation, which is no chance


def test_a_curve_goes_from_corner_to_corner_and_breaks_where_iterations_say_nothing():
    points = [(1, 0.0), (2, 1.0), (5, 1.0), (6, 0.0), (9, 0.5)]
    drawing = line_chart("t", [Series("r, x", 0, 0, points)])
    pieces = re.findall(r'points="([^"]*)"', drawing)
    assert pieces == ["52.0,196.0 99.5,8.0", "242.0,8.0 289.5,196.0"]
    assert 'cx="432.0" cy="102.0"' in drawing


def test_long_curves_are_drawn_by_means_and_equal_values_in_the_middle():
    drawing = line_chart("t", [Series("r", 0, 0, [(i, 2.0) for i in range(1000)])])
    (points,) = re.findall(r'points="([^"]*)"', drawing)
    assert len(points.split()) == 250
    assert {place.split(",")[1] for place in points.split()} == {"102.0"}
    assert line_chart("t", [Series("r", 0, 0, [])]) == ""


def test_stage_bands_join_iterations_of_one_stage_and_leave_gaps():
    drawing = stage_bands([("r", [(1, "detection"), (2, "detection"), (3, "performing"), (6, "performing")])])
    told = re.findall(r"<title>([^<]*)<", drawing)
    assert told == [
        "r: detection, iterations 1 to 2",
        "r: performing, iterations 3 to 3",
        "r: performing, iterations 6 to 6",
    ]
    assert stage_bands([]) == ""


def test_chance_stands_only_where_a_vote_at_random_is_right_so_often():
    # the commonest of few votes has more than 1/n of them by chance
    assert not any("game/commonest_vote" in figure.metrics.values() for figure in FIGURES if figure.chance)


def test_every_probe_has_a_figure_in_which_its_line_is_told_from_the_others():
    probes = {f"diagnostics/shortcut/{name}" for name in PROBES}
    drawn = [set(figure.metrics.values()) & probes for figure in FIGURES]
    assert set().union(*drawn) == probes
    assert max(len(figure.metrics) for figure in FIGURES) <= len(DASHES)


def test_text_columns_are_aligned():
    assert aligned([["a", "bb"], ["ccc", "d"]]) == "a    bb\nccc   d"
