"""What a run is told: defaults, files, the command line over them, and what is refused."""

import json
from dataclasses import asdict, replace

import pytest

from spy_env import PRESETS, RewardRules, Rules, Stage
from trainers import settings
from trainers.config import Actor, Adam, Algo, Ckpt, Config, Ds, Eval, GameConfig, Lora, Rollout, StageSampling, Train
from trainers.curriculum import Schedule
from trainers.embedded.command import main, parse
from trainers.engines import Sampling
from trainers.settings import read_config

P, D = Stage.PERFORMING, Stage.DETECTION
SHIPPED = sorted(file.stem for file in settings.SHIPPED.glob("*.toml"))


def written(folder, text, name="run.toml"):
    file = folder / name
    file.write_text(text)
    return str(file)


def test_the_defaults_are_the_papers():
    config = Config()
    assert config.game.rules == Rules()
    assert config.game.reward_rules == PRESETS["spyrl"] == RewardRules()
    assert config.start_curriculum().schedule == Schedule()
    assert (config.actor.eps_clip, config.algo.kl.init_coef, config.actor.loss_agg_mode, config.actor.ratio) == (
        *(0.2, 0.001, "token-mean"),
        "token",
    )
    assert config.sampling == {P: Sampling(512), D: Sampling(512)}
    assert config.actor.adam == Adam(1e-6, (0.9, 0.95))
    assert (config.train.batch_size, config.train.max_epochs) == (None, 1)  # one update an iteration
    assert (config.algo.rae, config.algo.alpha) == (True, 0.9)


def test_no_arguments_give_the_defaults():
    assert parse([]) == Config()


@pytest.mark.parametrize(
    ("documents", "samples", "players", "games"), [(8, 5, 5, 8), (104, 10, 5, 208), (128, 8, 4, 256), (1, 3, 3, 1)]
)
def test_games_are_samples_by_players(documents, samples, players, games):
    config = Config(GameConfig(players=players), rollout=Rollout(documents, samples))
    assert config.games_per_iteration == games


def test_a_preset_holds_where_no_price_is_given():
    config = Config(GameConfig(rewards="vision_zero", abstain=0.0, lam=0.3))
    assert config.game.reward_rules == replace(PRESETS["vision_zero"], abstain=0.0, lam=0.3)


def test_a_stage_samples_as_it_is_told_and_else_as_all():
    rollout = Rollout(max_new_tokens=90, temperature=0.7, detection=StageSampling(6, "\\boxed{", "}"))
    assert Config(rollout=rollout).sampling == {P: Sampling(90, 0.7), D: Sampling(6, 0.7, "\\boxed{", "}")}


def test_the_chat_template_is_told_json():
    assert Config(rollout=Rollout(chat_template_kwargs='{"enable_thinking": false}')).template_options == {
        "enable_thinking": False
    }


TOML = """
[game]
players = 4
[algo]
cycle = [4, 2]
rae = false
[rollout]
n_samples_per_prompt = 8
detection = { max_new_tokens = 6, stop = "}" }
[actor.adam]
lr = 1  # a whole number is a number
betas = [0.9, 0.99]
"""
AS_TOML = Config(
    GameConfig(players=4),
    Actor(adam=Adam(1, (0.9, 0.99))),
    Algo(cycle=(4, 2), rae=False),
    rollout=Rollout(n_samples_per_prompt=8, detection=StageSampling(6, stop="}")),
)


def test_a_toml_file_sets_what_it_names_and_nothing_else(tmp_path):
    assert read_config(written(tmp_path, TOML)) == AS_TOML
    assert read_config(written(tmp_path, "")) == Config()


def test_a_json_file_and_a_runs_own_config_do_the_same(tmp_path):
    row = {"game": {"players": 4}, "rollout": {"n_samples_per_prompt": 4}, "train": {"batch_size": None}}
    expected = Config(GameConfig(players=4), rollout=Rollout(n_samples_per_prompt=4))
    assert read_config(written(tmp_path, json.dumps(row), "a.json")) == expected
    of_a_run = {"config": row, "device": "cpu", "versions": {"torch": "2"}}
    assert read_config(written(tmp_path, json.dumps(of_a_run), "config.json")) == expected


EVERYTHING_ELSE = Config(
    GameConfig(
        task="my_task.py", players=3, voters="referees", referees=2, mask_fraction=1 / 3, words=9, beta=0.1 + 0.2
    ),
    Actor("elsewhere", Adam(3e-7, (0.5, 0.25)), ratio="sequence", loss_agg_mode="seq-mean-token-mean"),
    rollout=Rollout(7, 6, performing=StageSampling(3, 'a "quoted" prefix\n', "ü")),
    train=Train(max_minutes=9.5, batch_size=2),
    eval=Eval(3, 4),
    ds=Ds(Lora(4, 8, "q_proj,v_proj"), "bf16"),
)


@pytest.mark.parametrize("config", [Config(), AS_TOML, EVERYTHING_ELSE])
def test_what_a_run_writes_down_reads_back_as_the_very_same_config(config, tmp_path):
    again = read_config(written(tmp_path, json.dumps({"config": asdict(config)}), "config.json"))
    assert again == config
    assert (type(again.algo.cycle), type(again.actor.adam.betas)) == (tuple, tuple)
    assert asdict(again) == asdict(config)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[game]\nplayer = 4", r"run.toml: unknown game.player; game knows \['abstain', "),
        ("[games]\n[games.x]", r"run.toml: unknown games; a config knows \['actor', 'algo', 'ckpt', 'data'"),
        ("[actor.adam]\nrate = 1.0\nlr = 1.0", r"run.toml: unknown actor.adam.rate; actor.adam knows \['betas'"),
        ("game = 3", "run.toml: game is 3; give a group of settings"),
        ("[train]\niterations = '12'", "run.toml: train.iterations is '12'; it takes int"),
        ("[train]\niterations = 1.5", "iterations is 1.5; it takes int"),
        ("[train]\niterations = true", "iterations is True; it takes int"),
        ("[train]\nmax_minutes = '9'", r"max_minutes is '9'; it takes float \| None"),
        ("[algo]\ncycle = [1, 2, 3]", r"algo.cycle is \[1, 2, 3\]; it takes tuple\[int, int\]"),
        ("[algo]\ncycle = [1, 0.5]", r"algo.cycle is \[1, 0.5\]"),
        ("[algo]\ncycle = 1", r"algo.cycle is 1"),
        ("[algo]\nrae = 1", "algo.rae is 1; it takes bool"),
        ("[game\n", r"run.toml: Expected"),
    ],
)
def test_a_file_that_says_what_nobody_knows_is_refused_by_name(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_config(written(tmp_path, text))


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", r"run.json: Expecting"), ("[1]", r"run.json: the config is \[1\]; give a group of settings")],
)
def test_a_json_file_that_is_no_object_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_config(written(tmp_path, text, "run.json"))


def test_a_config_that_is_not_there_is_refused(tmp_path):
    for path in ("nowhere.toml", "", str(tmp_path)):
        with pytest.raises(
            ValueError, match=r"no config at '.*'; give a .toml or .json file, or the shipped 'first_run'"
        ):
            read_config(path)


def test_a_file_goes_before_the_shipped_config_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first_run").mkdir()  # a folder of that name is in nobody's way
    assert read_config("first_run").data.documents == "aclsum"
    (tmp_path / "first_run").rmdir()
    (tmp_path / "first_run").write_text("[train]\nseed = 7\n")
    assert read_config("first_run").train.seed == 7


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_config_can_be_read_and_read_back(name, tmp_path):
    config = read_config(name)
    assert (
        read_config(written(tmp_path, json.dumps(asdict(config)), "config.json")) == config == parse(["--config", name])
    )


def test_the_first_run_is_shipped_and_meant_for_a_small_machine():
    config = read_config("first_run")
    assert "first_run" in SHIPPED
    assert (config.actor.model_name_or_path, config.data.documents) == ("smollm2-135m", "aclsum")
    assert config.train.max_minutes <= 10
    assert config.eval.games > 0
    assert config.ckpt.output_dir == "outputs/first_run"


@pytest.mark.parametrize("config_flag", [["--config", "FILE"], ["--config=FILE"]])
def test_the_command_line_goes_over_the_file(tmp_path, config_flag):
    config_flag = [word.replace("FILE", written(tmp_path, TOML)) for word in config_flag]
    flags = ["--train.seed", "7", *config_flag, "--algo.cycle", "1", "9", "--rollout.detection.stop", "]"]
    expected = replace(
        AS_TOML,
        algo=replace(AS_TOML.algo, cycle=(1, 9)),
        rollout=replace(AS_TOML.rollout, detection=StageSampling(6, stop="]")),
        train=replace(AS_TOML.train, seed=7),
    )
    assert parse(flags) == expected
    assert parse(config_flag) == AS_TOML


def test_flags_have_openrlhfs_names():
    flags = {
        "--actor.model_name_or_path": "m",
        "--actor.adam.lr": 0.5,
        "--actor.loss_agg_mode": "seq-mean-token-mean",
        "--algo.kl.init_coef": 0.25,
        "--rollout.batch_size": 3,
        "--rollout.n_samples_per_prompt": 10,
        "--train.batch_size": 6,
        "--ckpt.output_dir": "there",
        "--logger.tensorboard_dir": "board",
        "--logger.wandb.project": "spies",
        "--logger.wandb.group": "g",
        "--logger.wandb.run_name": "n",
        "--logger.wandb.org": "us",
        "--logger.wandb.key": "k",
        "--ds.lora.rank": 4,
    }
    config = parse([word for flag, value in flags.items() for word in (flag, str(value))])
    for flag, value in flags.items():
        found = config
        for name in flag.removeprefix("--").split("."):
            found = getattr(found, name)
        assert found == value
    assert parse(["--ckpt.load_enable", "--algo.no_rae"]) == replace(
        Config(), ckpt=Ckpt(load_enable=True), algo=Algo(rae=False)
    )


def test_a_key_is_neither_shown_nor_written(capsys):
    flags = ["--logger.wandb.project", "spies", "--logger.wandb.key", "0123456789secret"]
    assert main([*flags, "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert "0123456789secret" not in said
    assert '"project": "spies"' in said
    row = parse(flags).without_secrets()
    assert row == asdict(parse(flags[:2])), "all else is there"


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--game.task", "nonsense"], "no task named 'nonsense'"),
        (["--data.documents", "nowhere.jsonl"], "no corpus at 'nowhere.jsonl'"),
    ],
)
def test_a_dry_run_looks_at_task_and_corpus(flags, says):
    with pytest.raises(ValueError, match=says):
        main([*flags, "--dry-run"])
