"""Tasks: those that come with the package, one's own from a file or a module, and every way to get it wrong."""

from dataclasses import replace

import pytest

from spy_env.documents import Document
from spy_env.game import RawReply, Rules, Stage, deal
from spy_env.observations import observe
from spy_env.records import from_json, to_json
from spy_env.tasks import Task, load_task, shipped_documents, task_names

DOCUMENT = Document("d", "one two three four five six seven eight nine ten")
POEM = """
from spy_env.tasks import Task

TASK = Task(
    name="poem",
    perform="Write a poem of {words} words.",
    detect="a poem off the subject",
    marker="Poem:",
    words=40,
    document_words=100,
    mask_fraction=0.3,
)
"""


@pytest.fixture
def poem(tmp_path):
    path = tmp_path / "poem.py"
    path.write_text(POEM)
    return path


def test_the_shipped_tasks_have_their_names_and_the_published_ones_their_shares():
    assert task_names() == ("summarization", "creative_writing", "math_reasoning", "key_points")
    assert [load_task(name).name for name in task_names()] == list(task_names())
    assert [load_task(name).mask_fraction for name in task_names()] == [0.2, 0.2, 0.4, 0.5]


def test_a_task_is_loaded_from_a_file_outside_the_package(poem):
    task = load_task(str(poem))
    assert (task.name, task.words, task.mask_fraction) == ("poem", 40, 0.3)


def test_a_task_is_loaded_from_a_module_by_attribute(tmp_path, monkeypatch):
    (tmp_path / "my_outside_tasks.py").write_text(POEM.replace("TASK =", "POEM ="))
    monkeypatch.syspath_prepend(tmp_path)
    assert load_task("my_outside_tasks:POEM").name == "poem"
    assert load_task("spy_env.tasks.summarization:TASK") == load_task("summarization")


def test_a_game_of_an_outside_task_is_played_and_recorded_by_the_name_it_was_given(poem):
    game = deal(DOCUMENT, str(poem), Rules(players=3), "1")
    assert (game.rules.mask_fraction, game.rules.document_words, game.rules.words) == (0.3, 100, 40)
    game = game.with_replies({seat: RawReply("thoughts\nPoem: verse") for seat in game.players})
    assert {shown.text for shown in game.performances().values()} == {"verse"}
    assert from_json(to_json(game)) == game


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("poem", r"no task named 'poem'; choose one of \['summarization', .*\], a file my_task\.py, or module:TASK"),
        ("", "no task named ''"),
        ("Summarization", "no task named 'Summarization'"),
        ("no/such/poem.py", r"no task file at 'no/such/poem\.py'"),
        ("no_such_module:TASK", "no module 'no_such_module' to take the task 'TASK' from"),
        ("spy_env.no_such:TASK", r"no module 'spy_env\.no_such'"),
        ("spy_env.seats:TASK", r"spy_env\.seats defines no TASK; a task file ends with TASK = Task"),
        ("math:pi", "math:pi: TASK is a float, not a spy_env"),
    ],
)
def test_a_task_that_is_not_there_is_an_error_that_names_the_way_out(name, message):
    with pytest.raises(ValueError, match=message):
        load_task(name)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("", ValueError, r"task\.py defines no TASK; a task file ends with TASK = Task"),
        ("TASK = 'poem'", ValueError, "TASK is a str, not a spy_env"),
        ("TASK = 1 +", SyntaxError, "invalid syntax"),
        ("import no_such_library", ModuleNotFoundError, "no_such_library"),
        (POEM.replace("{words}", "{lines}"), ValueError, r"task 'poem': perform can't be filled in.*only \{words\}"),
        (POEM.replace("{words}", "{}"), ValueError, "perform can't be filled in"),
        (POEM.replace("{words}", "{words"), ValueError, "perform can't be filled in"),
        (POEM.replace("Poem:", " "), ValueError, "task 'poem' needs an answer marker, such as 'Summary:'"),
        (POEM.replace("words=40", "length=40"), TypeError, "length"),
    ],
)
def test_a_wrong_task_file_is_an_error_when_it_is_loaded(tmp_path, source, error, message):
    path = tmp_path / "task.py"
    path.write_text(source)
    with pytest.raises(error, match=message):
        load_task(str(path))


def test_a_module_that_misses_something_itself_says_what(tmp_path, monkeypatch):
    (tmp_path / "task_needing_more.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_library"):
        load_task("task_needing_more:TASK")


def test_a_task_without_documents_says_how_to_give_some(poem):
    with pytest.raises(ValueError, match="task 'poem' ships no documents; give some"):
        shipped_documents(load_task(str(poem)))


@pytest.mark.parametrize("name", task_names())
def test_prompts_ask_for_the_length_of_the_rules(name):
    task = load_task(name)
    assert "{words}" in task.perform
    for words, expected in ((None, task.words), (77, 77)):
        game = deal(DOCUMENT, name, Rules(words=words), "1")
        asked = task.perform.replace("{words}", str(expected))
        performing = observe(game, Stage.PERFORMING)
        game = game.with_replies({seat: RawReply("text") for seat in game.players})
        detection = observe(game, Stage.DETECTION)
        for prompt in (*performing.values(), *detection.values()):
            assert asked in prompt
            assert "{" not in prompt.replace("\\boxed{", "")
        assert all(task.marker in prompt for prompt in performing.values())
        assert all(task.detect in prompt for prompt in detection.values())


def test_words_are_optional_in_a_task():
    task = replace(load_task("summarization"), perform="Summarize in {words} words, {{braces}} kept.")
    assert isinstance(task, Task)
    assert replace(task, perform="Summarize.").perform.format(words=3) == "Summarize."
