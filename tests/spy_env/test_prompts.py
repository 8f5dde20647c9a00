"""Sets of prompts: those that come with the package, one's own from a file, and every way to get it wrong."""

from dataclasses import replace

import pytest

from spy_env import Document, RawReply, Rules, Stage, deal, observe
from spy_env.prompts import Prompts, load_prompts, prompts_names

DOCUMENT = Document("d", "The mill at Orrin burned on 3 May. Nobody was hurt, and 40 sacks of rye were lost.")
MINE = """
from dataclasses import replace

from spy_env.prompts import load_prompts

PROMPTS = replace(load_prompts("lean"), name="mine", perform="{brief} Now!\\n")
"""


def asked(prompts, stage=Stage.PERFORMING, task="summarization", **rules):
    """The spy's prompt and a civilian's."""
    game = deal(DOCUMENT, task, Rules(prompts=prompts, words=20, **rules), "1")
    if stage is Stage.DETECTION:
        game = game.with_replies({seat: RawReply("Summary: It burned.") for seat in game.players})
    told = observe(game, stage)
    return told[game.spy], next(prompt for seat, prompt in told.items() if seat != game.spy)


def test_all_that_come_with_the_package_are_named_as_they_are_loaded():
    assert [load_prompts(name).name for name in prompts_names()] == list(prompts_names()) == ["v1", "lean"]
    assert Rules().prompts == "v1"


def test_lean_prompts_say_nothing_of_the_game_to_a_civilian_and_end_with_the_task():
    spy, civilian = asked("lean")
    assert civilian == (
        f"<document>\n{DOCUMENT.text}\n</document>\n\nSummarize the text above in one sentence of at most 20 words.\n"
    )
    assert "asterisks" in spy
    assert "spy" not in spy
    assert spy.endswith("Summarize the text above in one sentence of at most 20 words.\n")


@pytest.mark.parametrize("prompts", prompts_names())
def test_both_stages_begin_with_the_same_header_and_document(prompts):
    for performing, voting in zip(asked(prompts), asked(prompts, Stage.DETECTION), strict=True):
        beginning = performing.partition("</document>\n")[0]
        assert voting.startswith(beginning)
        assert beginning.rpartition("<document>\n")[2]


def test_a_task_without_one_sentence_is_asked_for_in_full():
    _, civilian = asked("lean", task="creative_writing")
    assert "</document>\n\nWrite" in civilian or len(civilian) > len(DOCUMENT.text) + 60


def test_prompts_come_from_a_file_or_a_module(tmp_path, monkeypatch):
    (tmp_path / "my_own_prompts.py").write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    for name in (str(tmp_path / "my_own_prompts.py"), "my_own_prompts:PROMPTS"):
        assert asked(name)[1].endswith("words. Now!\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v0", r"no prompts named 'v0'; choose one of \['v1', 'lean'\], a file my_prompts\.py, or module:PROMPTS"),
        ("no/such/prompts.py", r"no prompts file at 'no/such/prompts\.py'"),
        ("math:pi", r"math:pi: PROMPTS is a float, not a spy_env\.prompts\.Prompts"),
        ("spy_env.seats:PROMPTS", "spy_env.seats defines no PROMPTS; a prompts file ends with PROMPTS = Prompts"),
    ],
)
def test_prompts_that_are_not_there_are_an_error_before_the_game(name, message):
    with pytest.raises(ValueError, match=message):
        deal(DOCUMENT, "summarization", Rules(prompts=name), "1")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"header": "{seat}"}, r"'mine': header can't be filled in \(KeyError\('seat'\)\); it may use \['\{players\}'"),
        (
            {"detect": "{ballot} \\boxed{k}"},
            r"detect can't be filled in .* braces of its own are written \{\{ and \}\}",
        ),
        ({"detect": "Who?"}, r"detect has no \{ballot\}"),
        ({"civilian": "{}"}, "civilian can't be filled in"),
    ],
)
def test_a_template_that_cannot_be_filled_in_is_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        replace(load_prompts("lean"), name="mine", **wrong)


def test_a_set_needs_every_template():
    with pytest.raises(TypeError, match="detect"):
        Prompts("mine", "", "", "", "{task}")
