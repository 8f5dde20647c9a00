r"""Reading a vote: a table of replies, random text that must never raise, and replies long enough to hurt."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spy_env.ballot import ABSTAIN, UNREADABLE, after_thinking, parse_vote
from spy_env.seats import player_seats

# What may stand in the box, cells divided by bars.
THREE = r"""
3 | 03 | 003 | 0000003 | 3. | #3 | $3$ | $ 3 $ | ３ | ０３ | ＃３ | ＄３＄
Player 3 | player 3 | PLAYER 3 | Player3 | Player  3 | Player #3 | Player 03 | Player 3. | Player ３
Ｐｌａｙｅｒ ３ | $Player 3$ | player_3 | Player_3 | player_03 | ｐｌａｙｅｒ＿３ | Player-3
\text{3} | \text{ 3 } | \text {3} | \text{03} | \text{３} | \text{Player 3} | \text{player_3} | $\text{3}$
\textbf{3} | \textit{3} | \mathrm{3} | \mathbf{3} | \mbox{3} | \text{\textbf{3}} | \mathbf{\text{Player 3}} | \boxed{3}
"""
ABSTENTIONS = r"""
N/A | n/a | N/a | NA | na | N.A. | n.a | N\A | Ｎ／Ａ | ＮＡ | \text{N/A} | \textbf{NA} | \mathrm{n/a}
$N/A$ | \boxed{N/A} | none | None | NONE | \text{None} | abstain | Abstain | not applicable | Not Applicable
"""
NO_VOTES = r"""
0 | 00 | 6 | 7 | 10 | 33 | 99 | 999999999 | 9999999999 | Player 0 | Player 6 | Player 10 | player_6
\text{6} | \text{0} | ６ | -3 | -1 | −3 | +3 | --3 | \text{-3} | 3/5 | 1/3 | \frac{3}{5} | \frac{1}{3}
\text{\frac{3}{5}} | ½ | 3.0 | 3.5 | 3,0 | 3e0 | 0x3 | 1_0 | 3^2 | 3%
three | Three | Player three | \text{three} | third | one | III | Ⅲ | ③ | ³ | 三
2 or 3 | 2, 3 | 2,3 | 2 3 | 2/3 | 2-3 | 2 and 3 | Players 2 and 3 | \text{2}, \text{3} | \text{2}\text{3} | \text{3}{4}
not 2 but 3 | N/A or 3 | Player 2 or Player 3 | 3 (not 2) | \{3\} | k | Player k | Player | player_ | the spy | ?
unknown | I cannot tell | nobody | referee_3 | Player A | C | x3 | 3x | # | $ | $$ | \\ | - | \text{} | {} | null
"""


def boxed(table, vote):
    return [(rf"\boxed{{{cell.strip()}}}", vote) for row in table.strip().split("\n") for cell in row.split(" | ")]


DEEP = r"\boxed{" + "{" * 50 + "3" + "}" * 51
REPLIES = [
    (r"I think it is \boxed{3}.", "player_3"),
    (r"\boxed{2} no wait, \boxed{3}", "player_3"),  # the last one counts
    (r"\boxed{N/A} at first, but \boxed{3}", "player_3"),
    (r"\boxed{3}, or rather \boxed{N/A}", ABSTAIN),
    (r"\boxed{3} \boxed{maybe}", UNREADABLE),
    (r"\boxed{3} and then \boxed{}", "player_3"),  # empty ones don't
    (r"\boxed{3} and then \boxed{  }", "player_3"),
    (r"\boxed{3} and then \boxed{2", "player_3"),  # nor do unclosed ones
    (r"\boxed{2 \boxed{3}", "player_3"),
    (r"\boxed{3} \boxed", "player_3"),
    (r"\boxed {3}", "player_3"),
    ("\\boxed\n{ 3\n}", "player_3"),
    ("\\boxed{\t3\u00a0}", "player_3"),
    ("\\boxed{Player\n3}", "player_3"),
    (r"$\boxed{3}$", "player_3"),
    (r"**\boxed{3}**", "player_3"),
    (r"\[\boxed{3}\]", "player_3"),
    (r"} } \boxed{3} {", "player_3"),
    (r"{{{ \boxed{3}", "player_3"),
    (r"\\boxed{3}", "player_3"),
    (r"\boxed{3}}}", "player_3"),
    (r"the set \{1, 2\} \boxed{3}", "player_3"),
    (r"\boxed{3\}", UNREADABLE),  # an escaped brace closes nothing
    (r"\boxed{3\}}", UNREADABLE),
    (r"\boxed\{3\}", UNREADABLE),
    (r"\boxed{\{3}", UNREADABLE),
    (r"\boxed{3", UNREADABLE),
    (r"\boxed{", UNREADABLE),
    (r"\boxed{}", UNREADABLE),
    (r"\boxed{ }", UNREADABLE),
    (r"\boxed 3", UNREADABLE),
    (r"\boxed(3)", UNREADABLE),
    (r"boxed{3}", UNREADABLE),
    (r"\Boxed{3}", UNREADABLE),
    (r"\fbox{3}", UNREADABLE),
    (DEEP, UNREADABLE),
    (r"\boxed{3" + " " * 300 + "or 2}", UNREADABLE),
    (r"\boxed{" + "3" * 5000 + "}", UNREADABLE),  # more digits than Python turns into a number
    ("", UNREADABLE),
    (" \n", UNREADABLE),
    ("3", UNREADABLE),
    ("Player 3", UNREADABLE),
    ("N/A", UNREADABLE),
    ("I vote for player 3, whose summary leaves out the figures.", UNREADABLE),
    (r"<think>\boxed{2}</think>\boxed{3}", "player_3"),
    (r"<think>is it 2?</think> \boxed{3}", "player_3"),
    (r"is it 2?</think> \boxed{3}", "player_3"),  # a template may have opened it
    (r"<think>\boxed{2}</think>", UNREADABLE),
    (r"\boxed{2}</think>", UNREADABLE),
    (r"\boxed{2}<think>a</think>\boxed{3}", "player_3"),
    (r"<think>a</think>\boxed{2}<think>b</think>\boxed{3}", "player_3"),
    (r"<think>a</think>\boxed{2}</think>\boxed{3}", "player_3"),
    (r"<think>\boxed{3}", UNREADABLE),  # never closed: nothing after it counts
    (r"\boxed{3}<think>\boxed{2}", "player_3"),
    (r"<think>a</think>\boxed{3}<think>\boxed{2}", "player_3"),
    (r"<think>a</think><think>\boxed{3}", UNREADABLE),
    (r"<THINK>\boxed{3}", "player_3"),  # no such tag
    *boxed(THREE, "player_3"),
    *boxed(ABSTENTIONS, ABSTAIN),
    *boxed(NO_VOTES, UNREADABLE),
]


def test_the_table_holds_at_least_120_distinct_replies():
    assert len({reply for reply, _ in REPLIES}) == len(REPLIES) >= 120


@pytest.mark.parametrize(("reply", "vote"), REPLIES)
def test_a_reply_is_read_as_this_vote_among_five_players(reply, vote):
    assert parse_vote(reply, players=5) == vote


@pytest.mark.parametrize(
    ("inside", "players", "vote"),
    [
        ("10", 10, "player_10"),
        ("Player 10", 12, "player_10"),
        ("player_12", 12, "player_12"),
        ("１０", 10, "player_10"),
        ("010", 10, "player_10"),
        ("1", 10, "player_1"),
        ("11", 10, UNREADABLE),
        ("10", 9, UNREADABLE),
        ("100", 100, "player_100"),
        ("3", 3, "player_3"),
        ("4", 3, UNREADABLE),
    ],
)
def test_numbers_are_read_whole_and_up_to_the_number_of_players(inside, players, vote):
    assert parse_vote(rf"\boxed{{{inside}}}", players) == vote


def test_every_seat_can_be_voted_for_by_its_number_and_its_name():
    for seat in player_seats(12):
        assert parse_vote(rf"\boxed{{{seat}}}", 12) == parse_vote(rf"\boxed{{{seat[7:]}}}", 12) == seat


PIECES = [
    *("\\boxed{", "\\boxed", "{", "}", "\\{", "\\", "\\text{", "<think>", "</think>", "3", "10", "Player ", "N/A", " "),
    *("\n", "$", "０", "\ud800", "\udfff", "\x00", "\u202e", "é"),
]


@given(
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(st.characters(), max_size=4)), max_size=30), st.integers(3, 12)
)
def test_any_text_is_a_legal_vote(pieces, players):
    assert parse_vote("".join(pieces), players) in (*player_seats(players), ABSTAIN, UNREADABLE)


@given(st.lists(st.sampled_from(PIECES), max_size=30))
def test_a_last_word_in_a_box_counts_whatever_stands_before(pieces):
    before = "".join(pieces)
    thinking = before.rfind("<think>") > before.rfind("</think>")
    assert parse_vote(before + r" \boxed{4}", 5) == "player_4" or thinking


@given(st.lists(st.sampled_from(["a ", "<think>", "</think>"]), max_size=12))
def test_what_follows_thinking_holds_no_tag(pieces):
    assert "think>" not in after_thinking("".join(pieces))


MEGABYTE = 1_000_000
LONG_REPLIES = {
    "letters": "a" * MEGABYTE,
    "thinking": "<think>" * 140_000 + r"\boxed{3}",
    "twenty thousand boxes never closed": r"\boxed{" * 20_000,
    "and a brace at the end": r"\boxed{" * 140_000 + "}",
    "boxes in boxes": r"\boxed{" * 20_000 + "}" * 20_000,
    "unclosed boxes of groups": (r"\boxed{" + "{a}" * 300) * 1_100 + "}",
    "unclosed boxes of spaces": (r"\boxed{" + " " * 50) * 17_500 + "}",
    "open braces": r"\boxed{" + "{" * MEGABYTE + "}",
    "closed braces": r"\boxed{" + "}" * MEGABYTE,
    "groups": r"\boxed{" + "{abc}" * 200_000 + "}",
    "deep groups": (r"\boxed{" + "{{{{{a}}}}}" * 100) * 900 + "}",
    "backslashes": r"\boxed{" + "\\" * MEGABYTE + "}",
    "escaped braces": r"\boxed{" + r"\{" * 500_000 + "}",
    "one long box": r"\boxed{" + "3" * MEGABYTE + "}",
    "one long box of Chinese": r"\boxed{" + "好" * MEGABYTE + "}",
    "spaces before the brace": r"\boxed" + " " * MEGABYTE + "{3}",
    "empty boxes": r"\boxed{}" * 125_000,
    "many votes": r"\boxed{3} and " * 70_000,
}


@pytest.mark.parametrize("shape", LONG_REPLIES)
def test_a_long_reply_is_read_in_linear_time(shape):
    reply = LONG_REPLIES[shape]
    assert any(cpu_milliseconds(reply) < 50 for _ in range(5))  # several tries: the machine may be busy


def cpu_milliseconds(reply):
    begin = time.thread_time()
    parse_vote(reply, 5)
    return 1000 * (time.thread_time() - begin)
