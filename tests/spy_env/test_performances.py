"""What a reply shows to the others: the text after the task's marker, never the thinking."""

import pytest

from spy_env.game import Performance, RawReply, performance_of
from spy_env.tasks import load_task


@pytest.mark.parametrize(
    ("said", "text", "marked"),
    [
        ("Summary: The mill burned.", "The mill burned.", True),
        ("I think hard.\nSummary:\nThe mill\nburned.\n", "The mill\nburned.", True),
        ("  Summary : The mill", "The mill", True),
        ("SUMMARY: The mill", "The mill", True),
        ("## Summary:\nThe mill", "The mill", True),
        ("**Summary:** The mill", "The mill", True),
        ("**Summary**: The mill", "The mill", True),
        ("### **Summary:**\n\nThe mill", "The mill", True),
        ("__Summary:__ The mill", "The mill", True),
        ("*Summary*: The mill", "The mill", True),
        ("Summary: **The mill** burned", "**The mill** burned", True),  # bold that is the performance's own
        ("**Summary**: *The mill* burned", "*The mill* burned", True),
        ("Summary: a draft\nSummary: The mill", "The mill", True),  # the last one wins
        ("Summary: The mill\nIn summary: it burned", "The mill\nIn summary: it burned", True),  # not a line's beginning
        ("Summary: The mill. Summary: it burned", "The mill. Summary: it burned", True),
        ("My summary: The mill", "My summary: The mill", False),
        ("Summary The mill", "Summary The mill", False),
        ("Story: The mill", "Story: The mill", False),
        (" The mill burned. ", "The mill burned.", False),
        ("<think>why</think>The mill", "The mill", False),
        ("<think>Summary: no</think>\nSummary: The mill", "The mill", True),
        ("<think>Summary: no</think>The mill", "The mill", False),
        ("why</think>Summary: The mill", "The mill", True),
        ("<think>a</think>b<think>c</think>Summary: The mill", "The mill", True),
        ("Summary: no <think>why</think>The mill", "The mill", False),
        ("<think>Summary: The mill", "", False),
        ("Summary: The mill <think>and then", "", False),
        ("<think>a</think>Summary: The mill<think>", "", False),
        ("<think>a</think>", "", False),
        ("Summary:", "", True),
        ("Summary: a draft\nSummary: \n", "", True),
        ("", "", False),
        (" \n ", "", False),
    ],
)
def test_a_reply_shows_this_performance(said, text, marked):
    assert performance_of(RawReply(said), load_task("summarization")) == Performance(text, marked)


def test_a_prefix_is_part_of_what_a_seat_says():
    assert performance_of(RawReply(" The mill", prefix="Summary:"), load_task("summarization")) == ("The mill", True)
    assert (
        performance_of(RawReply("a</think>The mill", prefix="<think>"), load_task("summarization")).text == "The mill"
    )


def test_a_truncated_performance_is_shown_as_it_is():
    assert performance_of(RawReply("Summary: The mi", truncated=True), load_task("summarization")).text == "The mi"


@pytest.mark.parametrize("task", ["creative_writing", "math_reasoning"])
def test_every_task_has_its_own_marker(task):
    marker = load_task(task).marker
    assert performance_of(RawReply(f"thoughts\n**{marker}**\nresult"), load_task(task)) == ("result", True)
