"""What a sweep's file may say, which runs follow from it, and what is refused before anything runs."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the config of a training needs the train extra")
pytest.importorskip("tyro", reason="the command reads its flags with it")

from trainers.config import Actor, Adam, Ckpt, Config, GameConfig, Logger, Rollout
from trainers.embedded.command import main
from trainers.embedded.sweep import METRICS, read_sweep

COMMON = Config(
    GameConfig(players=4), Actor(adam=Adam(lr=1e-3)), rollout=Rollout(n_samples_per_prompt=4), ckpt=Ckpt("there")
)
TOML = """
seeds = [3, 1]
[settings.base]
[settings.no_rae]
game = { rae = false, cycle = [1, 2] }
actor.adam.lr = 1
"""


def written(folder, text, name="sweep.toml"):
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


def test_every_setting_is_laid_over_the_common_config_with_every_seed(tmp_path):
    sweep = read_sweep(written(tmp_path, TOML), COMMON)
    assert [(run.setting, run.seed) for run in sweep.runs] == [("base", 3), ("no_rae", 3), ("base", 1), ("no_rae", 1)]
    for run in sweep.runs:
        assert run.folder == Path("there", run.setting, f"seed_{run.seed}")
        expected = replace(
            COMMON, train=replace(COMMON.train, seed=run.seed), ckpt=Ckpt(str(run.folder), load_enable=True)
        )
        if run.setting == "no_rae":
            expected = replace(
                expected, game=GameConfig(players=4, rae=False, cycle=(1, 2)), actor=Actor(adam=Adam(lr=1))
            )
        assert run.config == expected
    assert (sweep.folder, sweep.seeds, sweep.measures, sweep.metrics, sweep.last) == (
        *(Path("there"), (3, 1), None),
        *(METRICS, 10),
    )


def test_a_json_file_says_the_same_and_chooses_columns(tmp_path):
    row = {"seeds": [3, 1], "settings": {"base": {}, "no_rae": {"game": {"rae": False, "cycle": [1, 2]}}}}
    row["settings"]["no_rae"]["actor"] = {"adam": {"lr": 1}}
    row |= {"measures": ["readable votes"], "metrics": ["kl"], "last": 3}
    sweep = read_sweep(written(tmp_path, json.dumps(row), "sweep.json"), COMMON)
    assert sweep.runs == read_sweep(written(tmp_path, TOML), COMMON).runs
    assert (sweep.measures, sweep.metrics, sweep.last) == (("readable votes",), ("kl",), 3)


def test_every_run_has_a_board_of_its_own(tmp_path):
    file = written(tmp_path, "seeds = [0]\n[settings.a]\n[settings.b]\nlogger.tensorboard_dir = 'other'")
    boards = [
        run.config.logger.tensorboard_dir
        for run in read_sweep(file, replace(COMMON, logger=Logger(tensorboard_dir="board"))).runs
    ]
    assert boards == ["board/a/seed_0", "other/b/seed_0"]
    assert read_sweep(file, COMMON).runs[0].config.logger.tensorboard_dir is None


ONE = "seeds = [0]\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[settings.a]", r"sweep.toml: seeds is None; give a list of whole numbers, such as \[0, 1, 2\]"),
        ("seeds = []\n[settings.a]", r"seeds is \[\]; give a list"),
        ("seeds = 3\n[settings.a]", "seeds is 3; give a list"),
        ("seeds = [true]\n[settings.a]", r"seeds is \[True\]; give a list"),
        ("seeds = [0.5]\n[settings.a]", r"seeds is \[0.5\]"),
        ("seeds = [1, 2, 1]\n[settings.a]", r"seeds is \[1, 2, 1\], where one stands twice"),
        (ONE, r"settings is None; give at least one, such as \[settings.base\]"),
        (ONE + "settings = {}", "settings is {}; give at least one"),
        (ONE + "settings = ['a']", r"settings is \['a'\]; give at least one"),
        (ONE + "settings = { a = 3 }", "setting 'a' is 3; give groups of flags"),
        (ONE + "seed = 1\n[settings.a]", r"sweep.toml: unknown \['seed'\]; a sweep knows \['last', 'measures'"),
        (ONE + "last = 0\n[settings.a]", "last is 0; give the number of iterations"),
        (ONE + "metrics = 'kl'\n[settings.a]", "metrics is 'kl'; give a list of names"),
        (ONE + "measures = [1]\n[settings.a]", r"measures is \[1\]; give a list of names"),
        (ONE + "[settings.'a/b']", "setting 'a/b' can't name a folder"),
        (ONE + "[settings.'..']", "setting '..' can't name a folder"),
        (ONE + "[settings.'']", "setting '' can't name a folder"),
        (ONE + "[settings.'sweep.md']", "setting 'sweep.md' can't name a folder"),
        (ONE + f"[settings.{'a' * 101}]", "can't name a folder; use at most 100 letters"),
        (ONE + "[settings.a]\n[settings.A]", r"settings \['a', 'A'\] differ in case alone"),
        (ONE + "[settings.a]\n[settings.a]", "sweep.toml: .*twice"),
        (ONE + "[settings.ok]\n[settings.a]\ngame.rea = false", r"setting 'a': config: game: unknown \['rea'\]"),
        (ONE + "[settings.a]\ngames.rae = false", r"setting 'a': config: unknown \['games'\]"),
        (ONE + "[settings.a]\ngame = 3", "setting 'a': config: game is 3; give a group of settings"),
        (ONE + "[settings.a]\ngame.rae = 1", "setting 'a': config: game: rae is 1; it takes bool"),
        (
            ONE + "[settings.a]\nlogger.wandb.key = 'k'",
            "setting 'a' says logger.wandb.key, which would be written down",
        ),
        (ONE + "[settings.a]\ngame.players = 3", "setting 'a': --rollout.n_samples_per_prompt is 4, no multiple"),
        (ONE + "[settings.a]\ngame.schedule = 'random'", "setting 'a': schedule is 'random'"),
        (ONE + "[settings.a]\ntrain.seed = 3", "setting 'a' says train.seed; give seeds in the sweep's list"),
        (ONE + "[settings.a]\nckpt.output_dir = 'x'", "setting 'a' says ckpt.output_dir; a run's folder is"),
        (ONE + "[settings.a]\nckpt.load_enable = false", "setting 'a' says ckpt.load_enable; a sweep always"),
        ("seeds = [", "sweep.toml: "),
    ],
)
def test_a_sweep_that_cannot_be_run_is_refused_with_the_place(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_sweep(written(tmp_path, text), COMMON)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"seeds": [0], "settings": {"a": {}, "a": {}}}', "sweep.json: 'a' stands twice in one object"),
        ("[1]", r"sweep.json is \[1\]; give an object with seeds and settings"),
        ("{", "sweep.json: Expecting"),
    ],
)
def test_a_json_file_that_hides_a_setting_or_is_none_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_sweep(written(tmp_path, text, "sweep.json"), COMMON)


def test_a_sweep_that_is_not_there_is_refused(tmp_path):
    for path in ("nowhere.toml", "", str(tmp_path)):
        with pytest.raises(ValueError, match=r"no sweep at '.*'; give a .toml or .json file"):
            read_sweep(path, COMMON)
    with pytest.raises(ValueError, match="--sweep needs a TOML or JSON file"):
        main(["--sweep"])


def test_what_was_run_with_other_settings_is_refused_by_name(tmp_path):
    common = replace(COMMON, ckpt=Ckpt(str(tmp_path / "out")))
    text = "seeds = [0]\n[settings.a]\ngame.rae = {}"
    run = read_sweep(written(tmp_path, text.format("true")), common).runs[0]
    run.folder.mkdir(parents=True)
    (run.folder / "config.json").write_text(json.dumps({"config": asdict(run.config)}), encoding="utf-8")
    assert read_sweep(written(tmp_path, text.format("true")), common).runs == (run,)
    read_sweep(written(tmp_path, text.format("true") + "\nckpt.max_num = 1"), common)
    with pytest.raises(ValueError, match=r"a/seed_0 holds a run made with --algo.rae True, and now it is False; give"):
        read_sweep(written(tmp_path, text.format("false")), common)


def test_what_another_version_left_is_refused_and_what_was_never_written_is_not(tmp_path):
    common = replace(COMMON, ckpt=Ckpt(str(tmp_path / "out")))
    file = written(tmp_path, "seeds = [0]\n[settings.a]")
    run = read_sweep(file, common).runs[0]
    run.folder.mkdir(parents=True)
    (run.folder / "config.json").write_text('{"config": {"game": {"luck": 1}}}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"unknown \['luck'\].*; remove .*a/seed_0 to run it anew"):
        read_sweep(file, common)
    (run.folder / "config.json").write_text("", encoding="utf-8")
    assert read_sweep(file, common).runs == (run,)


def flags(tmp_path, sweep):
    return [
        *(f"--sweep={written(tmp_path, sweep)}", "--ckpt.output_dir", str(tmp_path / "out")),
        *("--game.players", "4", "--rollout.n_samples_per_prompt", "4"),
    ]


def test_a_dry_run_prints_every_run_and_leaves_nothing_behind(tmp_path, capsys):
    assert main([*flags(tmp_path, TOML), "--dry-run"]) == 0
    plan = capsys.readouterr().out.splitlines()
    assert plan[0] == f"4 runs: 2 settings x 2 seeds; results in {tmp_path / 'out'}"
    assert plan[1:3] == [
        "setting base: {}",
        'setting no_rae: {"game": {"rae": false, "cycle": [1, 2]}, "actor": {"adam": {"lr": 1}}}',
    ]
    assert plan[3] == f"run 1 of 4 (base, seed 3): new, {tmp_path / 'out' / 'base' / 'seed_3'}"
    assert len(plan) == 7
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
@pytest.mark.parametrize(
    ("over", "message"),
    [
        ("game.task = 'nonsense'", "no task named 'nonsense'"),
        ("data.documents = 'no.jsonl'", "no corpus at 'no.jsonl'"),
    ],
)
def test_task_and_corpus_of_every_setting_are_looked_at_before_anything_runs(tmp_path, dry_run, over, message):
    sweep = f"seeds = [0]\n[settings.a]\n[settings.b]\n{over}"
    with pytest.raises(ValueError, match=message):
        main([*flags(tmp_path, sweep), *dry_run])
    assert not (tmp_path / "out").exists()
