"""``spyrl play``: any mix of players, shown without spoilers, saved and never overwritten."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from spy_env import Stage, observe, read_games
from spy_env.seats import number_of
from spy_env.tasks import load_task, shipped_documents
from trainers import play

TINY_TASK = str(Path(__file__).with_name("tiny_task.py"))
TEXTS = (
    "The bridge was closed in spring. It carries nine thousand cars a day. Repairs cost two million.",
    "The tower leans by four degrees. It was built in 1173. Nobody may climb it in winter.",
    "Nine ships left the harbour. Two of them carried wheat. All came back before the storm.",
)


@pytest.fixture
def games(tmp_path):
    """Plays with the given flags on three documents; returns the exit status and the games that were saved."""
    documents = tmp_path / "documents.jsonl"
    documents.write_text("".join(json.dumps({"text": text}) + "\n" for text in TEXTS), encoding="utf-8")

    def start(*flags: str, output: str = "games.jsonl", source: str | Path = documents):
        file = tmp_path / output
        status = play.main(["--documents", str(source), "--output", str(file), *flags])
        return status, list(read_games(file)) if file.exists() else []

    return start


@pytest.fixture
def typed(monkeypatch):
    """What the human types."""

    def give(*lines: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(line + "\n" for line in lines)))

    return give


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    pytest.importorskip("torch", reason="a local model plays")
    tiny_world = pytest.importorskip("tests.trainers.tiny_world", reason="needs transformers")
    return str(tiny_world.model_folder(tmp_path_factory.mktemp("model"), steps=20))


def test_scripted_players_play_by_default_one_document_a_game(games):
    status, saved = games("--games", "4")
    assert status == 0
    assert [game.seed for game in saved] == ["0/0", "0/1", "0/2", "0/3"]
    assert [game.document.text for game in saved] == [*TEXTS, TEXTS[0]], "all played, so the first comes again"
    assert {(game.stage, game.rules.players, game.task) for game in saved} == {(Stage.OVER, 5, "summarization")}


def test_the_same_seed_plays_the_same_games_and_another_seed_others(games):
    flags = ("--games", "3", "--player", "random")
    first, again = games(*flags, output="1")[1], games(*flags, output="2")[1]
    assert first == again
    assert games(*flags, "--seed", "5", output="3")[1] != first


def test_games_played_at_the_same_time_are_those_played_one_by_one(games):
    flags = ("--games", "5", "--player", "coverage", "--prompts", "lean", "--ballot_order", "voter")
    _, one_by_one = games(*flags)
    _, together = games(*flags, "--batch_size", "3", output="together.jsonl")
    assert together == one_by_one
    assert len(together) == 5


def test_scripted_random_human_and_model_sit_at_one_table(games, typed, model):
    from tests.trainers import tiny_world

    typed("plum fig", "", "2")
    _, (game,) = games(
        *("--task", TINY_TASK, "--players", "4", "--human", "player_2", "--max_new_tokens", "6"),
        *("--seat", f"player_3=model:{model}", "--seat", "player_4=random"),
    )
    said = {seat: reply.text for seat, reply in game.replies[Stage.PERFORMING].items()}
    assert said["player_2"] == "plum fig"
    assert said["player_3"]
    assert set(said["player_3"].split()) <= set(tiny_world.tokenizer().get_vocab())
    assert said["player_4"] in observe(game, Stage.PERFORMING)["player_4"]
    assert game.votes()["player_2"] == "player_2"


def test_a_human_reads_its_own_prompts_and_sees_the_end(games, typed, capsys):
    typed("The bridge was closed.", "It is old.", "", "3")
    _, (game,) = games("--human", "player_2")
    shown = capsys.readouterr().out
    assert observe(game, Stage.PERFORMING)["player_2"] in shown
    assert observe(game, Stage.DETECTION)["player_2"] in shown
    assert game.replies[Stage.PERFORMING]["player_2"].text == "The bridge was closed.\nIt is old."
    assert game.votes()["player_2"] == "player_3"
    assert f"The spy was {game.spy}" in shown


def test_a_human_who_is_a_referee_votes_only(games, typed):
    typed("4")
    _, (game,) = games("--voters", "referees", "--referees", "3", "--human", "referee_2")
    assert list(game.replies[Stage.DETECTION]) == ["referee_1", "referee_2", "referee_3"]
    assert game.votes()["referee_2"] == "player_4"


def test_a_human_whose_input_ends_has_said_nothing(games, typed):
    typed()
    status, (game,) = games("--human", "player_1")
    assert status == 0
    assert game.replies[Stage.PERFORMING]["player_1"].text == ""
    assert game.votes()["player_1"] == "unreadable"


def test_games_that_are_over_are_saved_when_a_human_leaves(games, monkeypatch, tmp_path):
    class Leaving(io.StringIO):
        def readline(self, *_):
            line = super().readline()
            if not line:
                raise KeyboardInterrupt
            return line

    monkeypatch.setattr("sys.stdin", Leaving("A bridge.\n\n1\n"))
    with pytest.raises(KeyboardInterrupt):
        games("--games", "2", "--human", "player_1")
    assert [game.seed for game in read_games(tmp_path / "games.jsonl")] == ["0/0"]


def test_a_prefill_is_recorded_for_the_model_and_not_for_who_writes_by_script(games, model):
    _, (game,) = games(
        *("--task", TINY_TASK, "--players", "4", "--max_new_tokens", "3", "--seat", f"player_1=model:{model}"),
        *("--performing_prefill", "Word:", "--detection_prefill", r"\boxed{"),
    )
    for stage, prefill in ((Stage.PERFORMING, "Word:"), (Stage.DETECTION, r"\boxed{")):
        prefixes = {seat: reply.prefix for seat, reply in game.replies[stage].items()}
        assert prefixes == {"player_1": prefill, "player_2": "", "player_3": "", "player_4": ""}


def test_documents_are_shortened_to_what_the_model_can_read(games, model, tmp_path):
    (tmp_path / "long").mkdir()
    (tmp_path / "long" / "long.txt").write_text("plum fig pear kiwi " * 60, encoding="utf-8")
    _, (game,) = games(
        *("--task", TINY_TASK, "--players", "4", "--document_words", "240", "--max_new_tokens", "3"),
        *("--max_len", "60", "--player", f"model:{model}"),
        source=tmp_path / "long",
    )
    assert 20 < len(game.document.text.split()) < 60


def test_documents_come_from_a_folder_of_text_files_in_name_order(games, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name, text in zip(("b.txt", "a.md", "c.pdf"), TEXTS, strict=True):
        (folder / name).write_text(text, encoding="utf-8")
    _, saved = games("--games", "3", source=folder)
    in_order = [("a.md", TEXTS[1]), ("b.txt", TEXTS[0]), ("a.md", TEXTS[1])]
    assert [(game.document.id, game.document.text) for game in saved] == in_order


def test_documents_come_from_the_field_that_is_named(games, tmp_path):
    (tmp_path / "papers.jsonl").write_text(json.dumps({"abstract": TEXTS[0], "id": "p1"}), encoding="utf-8")
    _, (game,) = games("--input_key", "abstract", source=tmp_path / "papers.jsonl")
    assert (game.document.id, game.document.text) == ("p1", TEXTS[0])


def test_without_documents_the_task_s_own_are_played(tmp_path):
    assert play.main(["--task", "math_reasoning", "--output", str(tmp_path / "games.jsonl")]) == 0
    (game,) = read_games(tmp_path / "games.jsonl")
    assert game.document == next(shipped_documents(load_task("math_reasoning")))


@pytest.mark.parametrize("task", [TINY_TASK, "tests.trainers.tiny_task:TASK"])
def test_a_task_may_come_from_outside_the_package(games, task):
    _, (game,) = games("--task", task)
    assert (game.task, game.rules.document_words) == (task, 5)
    assert "Say one word." in observe(game, Stage.PERFORMING)["player_1"]


def test_rules_are_taken_from_the_flags(games):
    _, (game,) = games(
        *("--players", "6", "--voters", "civilians", "--operator", "removal"),
        *("--mask_fraction", "0.5", "--document_words", "12", "--words", "30"),
    )
    rules = game.rules
    assert (rules.players, rules.voters, rules.operator) == (6, "civilians", "removal")
    assert (rules.mask_fraction, rules.document_words, rules.words) == (0.5, 12, 30)
    assert len(game.replies[Stage.DETECTION]) == 5


def test_nothing_is_spoiled_before_it_is_asked_for(games, capsys):
    _, (game,) = games()
    shown = capsys.readouterr().out
    assert game.document.text in shown
    for seat, performance in game.performances().items():
        assert f"Player {number_of(seat)}:" in shown
        assert performance.text.splitlines()[0] in shown
    for spoiler in ("The spy was", " said: ", "[[", "votes for", r"\boxed", "civilian"):
        assert spoiler not in shown, spoiler
    games("--reveal", output="revealed.jsonl")
    revealed = capsys.readouterr().out
    for told in (f"The spy was {game.spy}", " said: ", "[[", "votes for"):
        assert told in revealed, told


def test_no_file_is_ever_overwritten(games, tmp_path, capsys):
    games("--seed", "1")
    first = (tmp_path / "games.jsonl").read_bytes()
    for seed in ("2", "3"):
        games("--seed", seed)
    assert (tmp_path / "games.jsonl").read_bytes() == first
    names = ("games.jsonl", "games-2.jsonl", "games-3.jsonl")
    assert [next(read_games(tmp_path / name)).seed for name in names] == ["1/0", "2/0", "3/0"]
    assert f"games: {tmp_path / 'games-3.jsonl'}" in capsys.readouterr().out


def test_a_dry_run_says_who_would_play_and_does_nothing(games, capsys):
    status, saved = games(
        *("--dry-run", "--players", "3", "--voters", "referees", "--referees", "1"),
        *("--seat", "player_2=model:/no/such/model", "--human", "referee_1"),
    )
    assert (status, saved) == (0, [])
    assert capsys.readouterr().out.splitlines() == [
        "player_1: scripted",
        "player_2: model:/no/such/model",
        "player_3: scripted",
        "referee_1: human",
    ]


MISTAKES = {
    "a seat that isn't there": (["--seat", "player_6=random"], r"no seat 'player_6'.*player_5"),
    "a human in a seat that isn't there": (["--human", "referee_1"], r"no seat 'referee_1'"),
    "a player nobody knows": (["--player", "clever"], r"no player 'clever';\na player is one of"),
    "a seat without a player": (["--seat", "player_1"], r"no player ''"),
    "a model without a name": (["--player", "model:"], r"no player 'model:'"),
    "a scripted player with a name": (["--player", "scripted:bob"], r"no player 'scripted:bob'"),
    "an endpoint without a model": (["--player", "endpoint:http://localhost:9/v1"], r"names no model"),
    "too few players": (["--players", "2"], r"at least 3"),
    "prompts nobody knows": (["--prompts", "v0"], r"no prompts named 'v0'"),
    "no game at a time": (["--batch_size", "0"], r"--batch_size is 0; play 1 game"),
    "a task nobody knows": (["--task", "poem"], r"no task named 'poem'"),
    "a temperature of zero": (["--temperature", "0"], r"temperature is 0"),
    "a field that isn't there": (["--input_key", "body"], r"no field 'body'"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_and_nothing_is_saved(games, tmp_path, mistake):
    flags, message = MISTAKES[mistake]
    with pytest.raises(ValueError, match=message):
        games(*flags)
    assert not (tmp_path / "games.jsonl").exists()


def test_a_folder_without_a_model_is_a_mistake_too(games, tmp_path):
    pytest.importorskip("torch", reason="a local model is looked for")
    with pytest.raises(ValueError, match="no model at"):
        games("--player", f"model:{tmp_path / 'nowhere'}")
