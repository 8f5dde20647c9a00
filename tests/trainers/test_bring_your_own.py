"""The trainer that the page shows is run as it stands there, on the tiny model."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the page trains with it")
pytest.importorskip("transformers", reason="the model is one of its")

from spy_env import Stage
from tests.trainers import tiny_runs, tiny_world

FOLDER = Path(__file__).parents[2] / "trainers"
TEXT = (FOLDER / "BRING_YOUR_OWN.md").read_text(encoding="utf-8")
(CODE,) = re.findall(r"^```python\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
NAMES = "MODEL, TASK, DOCUMENTS, GAMES, ITERATIONS, LR"
ITERATIONS, GAMES = 4, 3


def made_small(place):
    """The page's code with the tiny model and its documents; nothing else is changed."""
    documents = tiny_runs.write_corpus(place / "documents.jsonl")
    own = (str(place / "model"), tiny_world.TASK, str(documents), GAMES, ITERATIONS, 1e-3)
    code, settings = re.subn(rf"^{NAMES} = .*$", lambda _: f"{NAMES} = {own!r}", CODE, flags=re.MULTILINE)
    code, lengths = re.subn(r"max_new_tokens=\d+", "max_new_tokens=4", code)
    code, rooms = re.subn(r"max_len=\d+", "max_len=64", code)
    assert (settings, lengths, rooms) == (1, 2, 1)
    return code


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """The page's names after its code ran, what it printed, and the weights that it began with."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(1)
    place = tmp_path_factory.mktemp("own")
    tiny_world.model_folder(place / "model", steps=60)
    printed: list[str] = []
    names = {"print": printed.append}
    exec(compile(made_small(place), "BRING_YOUR_OWN.md", "exec"), names)
    return names, [line.split() for line in printed], AutoModelForCausalLM.from_pretrained(place / "model")


def test_both_stages_are_trained_and_the_curriculum_goes_on(ran):
    names, printed, _ = ran
    lines = [line for line in printed if line[0].isdigit()]
    assert [line[1] for line in lines] == ["detection", "performing"] * 2
    assert all(math.isfinite(float(line[2])) for line in lines)
    assert names["curriculum"].iteration == ITERATIONS
    assert names["curriculum"].accuracy.weight > 0
    assert {game.trained for game in names["games"]} == {Stage.PERFORMING}


def test_what_is_trained_is_what_was_sampled_at_our_advantages(ran):
    names, printed, _ = ran
    samples, advantages = names["samples"], names["advantages"]
    assert len(samples) == GAMES * 4
    assert names["ratio"].tolist() == pytest.approx([1] * len(samples[-1].ids), abs=1e-4)
    by_hand = -sum(advantages[one.game, one.seat] * len(one.ids) for one in samples) / sum(
        len(one.ids) for one in samples
    )
    assert float(printed[-1][2]) == pytest.approx(by_hand, abs=1e-4)


def test_the_weights_move_and_good_replies_become_likelier(ran):
    names, _, before = ran
    after = dict(names["model"].named_parameters())
    assert all(not torch.equal(value, after[name]) for name, value in before.named_parameters())
    gained = 0.0
    for one in names["samples"]:
        ids = torch.tensor([one.prompt_ids + one.ids])
        with torch.no_grad():
            logprobs = names["model"](input_ids=ids).logits[0, len(one.prompt_ids) - 1 : -1].log_softmax(-1)
        now = logprobs.gather(1, torch.tensor(one.ids)[:, None]).sum().item()
        gained += names["advantages"][one.game, one.seat] * (now - sum(one.logprobs))
    assert any(names["advantages"].values())
    assert gained > 0


def test_the_loop_is_short_and_the_page_links_files_that_are_there():
    loop = CODE[CODE.index("model = ") :]
    assert len([line for line in loop.splitlines() if line.strip()]) <= 32
    for target in re.findall(r"\]\(([^)#:]+)\)", TEXT):
        assert (FOLDER / target).exists(), target
