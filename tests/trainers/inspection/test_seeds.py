"""Runs whose settings differ in their seed alone: grouped, named by what tells the groups apart, and averaged."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest

from spy_env import write_games
from tests.trainers.made_games import voted
from trainers.inspection.command import main
from trainers.inspection.runs import read_runs
from trainers.inspection.seeds import seed_groups, seed_rows

SETTINGS = {
    "game": {"task": "summarization", "players": 4, "rae": True},
    "train": {"iterations": 4},
    "ckpt": {"output_dir": "", "load_enable": False, "save_steps": 10},
    "logger": {"tensorboard_dir": None, "wandb": {"run_name": None}},
}


def make_run(folder, seed, rows=({"kl": 1.0},), facts=None, **groups):
    """A run whose output and log places are its own."""
    own = {
        "train": {"seed": seed},
        "ckpt": {"output_dir": str(folder)},
        "logger": {"tensorboard_dir": f"{folder}/board"},
    }
    names = {**SETTINGS, **groups}
    config = {name: SETTINGS.get(name, {}) | own.get(name, {}) | groups.get(name, {}) for name in names}
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"config": config, **(facts or {})}), encoding="utf-8")
    lines = [json.dumps({"step": step, **row}) + "\n" for step, row in enumerate(rows, start=1)]
    (folder / "metrics.jsonl").write_text("".join(lines), encoding="utf-8")
    return folder


def groups_of(*folders):
    return seed_groups(read_runs(folders))


def by_name(groups):
    """The table's cells by row, without its heading."""
    return {row[0]: row[1:] for row in seed_rows(groups)[1:]}


def test_means_and_intervals_over_seeds_are_students(tmp_path):
    # Last halves of four iterations: 0.5, 0.6, 0.7. Mean 0.6, standard deviation 0.1, half-width 4.303 x 0.1 / sqrt(3) = 0.248
    values = {0: (9, 9, 0.4, 0.6), 1: (9, 9, 0.5, 0.7), 2: (9, 9, 0.6, 0.8)}
    folders = [make_run(tmp_path / f"s{i}", i, [{"kl": value} for value in kl]) for i, kl in values.items()]
    rows = by_name(groups_of(*folders))
    assert rows["seeds"] == ["0, 1, 2"]
    assert rows["iterations"] == ["4"]
    assert rows["KL to the model before training: KL"] == ["0.600 [0.352, 0.848]"]


def test_groups_are_named_by_the_settings_in_which_they_differ(tmp_path):
    four = [make_run(tmp_path / f"four{seed}", seed) for seed in (0, 1)]
    eight = [make_run(tmp_path / f"eight{seed}", seed, game={"players": 8, "rae": False}) for seed in (0, 2)]
    alone = make_run(tmp_path / "alone", 0, game={"rae": False})
    groups = groups_of(*four, alone, *eight)
    assert list(groups) == ["game.players 4, game.rae True", "game.players 8, game.rae False"]
    assert [list(group) for group in groups.values()] == [[0, 1], [0, 2]]
    assert by_name(groups)["seeds"] == ["0, 1", "0, 2"]
    assert list(groups_of(*four)) == ["all runs"]


@pytest.mark.parametrize(
    "other",
    [
        {"facts": {"weights_sha256": "b" * 64}},
        {"facts": {"trainer": "openrlhf"}},
        {"ckpt": {"save_steps": 5}},
        {"train": {"iterations": 8}},
        {"new": {"flag": 1}},
    ],
)
def test_runs_that_differ_in_more_than_seed_and_places_are_no_group(tmp_path, other):
    assert groups_of(make_run(tmp_path / "a", 0), make_run(tmp_path / "b", 1, **other)) == {}
    resumed = make_run(tmp_path / "c", 1, ckpt={"load_enable": True}, logger={"wandb": {"run_name": "mine"}})
    assert len(groups_of(tmp_path / "a", resumed)) == 1


def test_a_seed_counts_once_and_a_run_that_names_none_not_at_all(tmp_path):
    folders = [make_run(tmp_path / f"r{i}", seed, [{"kl": float(i)}]) for i, seed in enumerate((0, 1, 1, None))]
    groups = groups_of(*folders)
    assert [run.folder.name for run in groups["all runs"].values()] == ["r0", "r1"]
    assert by_name(groups)["KL to the model before training: KL"] == ["0.500 [-5.853, 6.853]"]  # 12.706 x 0.5
    assert groups_of(folders[1], folders[2]) == {}
    (folders[0] / "config.json").unlink()
    assert groups_of(*folders) == {}


def test_a_metric_that_some_runs_lack_says_over_how_many_it_is(tmp_path):
    rows = [[{"kl": 1.0, "entropy": 2.0}], [{"kl": 3.0}], [{"kl": 5.0, "game/caught": 0.25}]]
    two = [make_run(tmp_path / f"two{i}", i, [{"reward": 1.0}], game={"players": 8}) for i in range(2)]
    table = by_name(groups_of(*(make_run(tmp_path / f"s{i}", i, row) for i, row in enumerate(rows)), *two))
    assert table["Entropy: entropy"] == ["2.000 (n 1)", "-"]
    assert table["Reward of the trained replies: mean"] == ["-", "1.000 [1.000, 1.000]"]
    assert table["iterations"] == ["1 of 4", "1 of 4"]


def test_held_out_games_count_before_and_after_training(tmp_path):
    # One game a run: three civilians vote. Before, 1 and 2 of 3 are right; after, 2 and 3 of 3.
    votes = {0: ("2 1 3 3", "2 1 1 3"), 1: ("2 1 1 3", "2 1 1 1")}
    for seed, (before, after) in votes.items():
        folder = make_run(tmp_path / f"s{seed}", seed, [{"kl": 1.0}] * 4)
        for point, said in {"before": before, "after": after}.items():
            write_games(folder / "games" / f"eval_{point}.jsonl", [voted(said)])
    groups = groups_of(tmp_path / "s0", tmp_path / "s1")
    rows = by_name(groups)
    assert rows["Held-out games: detection accuracy, before"] == ["0.500 [-1.618, 2.618]"]  # 12.706 x (1/3) / 2
    assert rows["Held-out games: detection accuracy, after"] == ["0.833 [-1.284, 2.951]"]
    assert not any(name.startswith(("Held-out games: step", "Held-out games: detection accuracy: ")) for name in rows)


def test_points_of_a_curve_count_at_the_first_and_the_last_iteration_only(tmp_path):
    for seed in (0, 1):
        folder = make_run(tmp_path / f"s{seed}", seed, [{"kl": 1.0}] * 4)
        points = [(0, 0.1), (2, 0.9), *([(4, 0.3)] if seed else [])]
        lines = [
            json.dumps({"step": step, "learner spy: not caught": value, "opponent": "initial"})
            for step, value in points
        ]
        (folder / "evaluations.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = by_name(groups_of(tmp_path / "s0", tmp_path / "s1"))
    assert rows["Held-out games: learner spy: not caught, before"] == ["0.100 [0.100, 0.100]"]
    assert rows["Held-out games: learner spy: not caught, after"] == ["0.300 (n 1)"]
    assert not any("opponent," in name for name in rows)


def test_evaluations_that_cannot_be_read_become_a_note(tmp_path):
    folder = make_run(tmp_path / "s0", 0)
    write_games(folder / "games" / "eval_before.jsonl", [voted("2 1 1 3")])
    text = (folder / "games" / "eval_before.jsonl").read_text(encoding="utf-8")
    (folder / "games" / "eval_before.jsonl").write_text(text.replace('"version": 1', '"version": 99'), encoding="utf-8")
    (run,) = read_runs([folder])
    assert len(run.notes) == 1
    assert "eval_before.jsonl can't be measured" in run.notes[0]


def test_the_means_are_on_the_terminal_and_on_the_page(tmp_path, capsys):
    folders = [make_run(tmp_path / f"s<{seed}>", seed, game={"task": "<b>"}) for seed in (0, 1)]
    other = make_run(tmp_path / "other", 0, game={"task": "none"})
    assert main([str(folder) for folder in (*folders, other)]) == 0
    out = capsys.readouterr().out
    assert "means over seeds, of last iterations and of held-out games, with Student's 95 % intervals" in out
    assert "game.task <b>" in out
    page = (folders[0] / "inspection" / "report.html").read_text(encoding="utf-8")
    seeds = page[page.index("<h2>Seeds") : page.index("<h2>What the games say")]
    assert "game.task &lt;b&gt;" in seeds
    assert "<td>1.000 [1.000, 1.000]</td>" in seeds
    assert "<b>" not in seeds
    ElementTree.fromstring(seeds.join(["<div>", "</div>"]))
    assert main([str(folders[0]), str(other)]) == 0
    assert "means over seeds" not in capsys.readouterr().out
