"""A world small enough to learn in: a word-level tokenizer and a two-layer model, made here, no download."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from random import Random

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedModel, PreTrainedTokenizerFast

from spy_env import Document, RawReply, Rules, Stage, deal, observe
from spy_env.ballot import read_ballot
from spy_env.observations import read_document
from trainers.engines import Failed, Reply, Request

TASK = str(Path(__file__).with_name("tiny_task.py"))
WORDS = ("plum", "fig", "pear", "kiwi", "lime", "date")
MARK = "plum"
NOTHING = "nothing"
RULES = Rules(players=4, mask_fraction=0.2)
PIECES = rf"\\boxed\{{|\}}|{'|'.join((*WORDS, NOTHING))}|[1-9](?=[:}}])|\*+"  # all else that prompts say isn't read
TEMPLATE = "{{ '<user> ' + messages[0]['content'] + ' <assistant>' }}"


def said(word: str) -> str:
    """A scripted performance: one word four times, so that a small model can't overlook it."""
    return " ".join([word] * 4)


def documents(count: int, seed: int = 0) -> list[Document]:
    """Five-word documents."""
    rng = Random(seed)
    return [Document(f"tiny-{i}", " ".join(rng.choices(WORDS, k=5))) for i in range(count)]


def played_prompts(count: int, seed: int = 0) -> list[str]:
    """Vote and performing prompts of games whose players say random words."""
    rng = Random(seed)
    prompts: list[str] = []
    for i, document in enumerate(documents(count, seed)):
        game = deal(document, TASK, RULES, f"pre/{seed}/{i}")
        prompts += observe(game, Stage.PERFORMING).values()
        game = game.with_replies({seat: RawReply(said(rng.choice((*WORDS, NOTHING)))) for seat in game.players})
        prompts += observe(game, Stage.DETECTION).values()
    return prompts


def tokenizer() -> PreTrainedTokenizerFast:
    """Whole words, and the pieces of a vote."""
    special = ["<unk>", "<pad>", "<end>", "<user>", "<assistant>"]
    numbers = [str(number) for number in range(1, 10)]
    vocabulary = {piece: i for i, piece in enumerate([*special, "\\boxed{", "}", *numbers, *WORDS, NOTHING])}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Split(Regex(PIECES), behavior="removed", invert=True)
    made = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        unk_token="<unk>",
        pad_token="<pad>",
        eos_token="<end>",
        additional_special_tokens=["<user>", "<assistant>"],
    )
    made.chat_template = TEMPLATE
    return made


def model_folder(folder: Path, steps: int = 200, seed: int = 0) -> Path:
    """A model that has seen the form of both replies, with random words and numbers, and nothing else."""
    tokens = tokenizer()
    model = fresh_model(tokens, seed)
    teach_the_form(model, tokens, steps, Random(seed))
    return saved(model, tokens, folder)


def fresh_model(tokens: PreTrainedTokenizerFast, seed: int) -> GPT2LMHeadModel:
    """Random weights."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=len(tokens),
        n_embd=64,
        n_layer=2,
        n_head=4,
        n_positions=96,  # learned positions: where a word stands is one step away
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        resid_pdrop=0.0,
        bos_token_id=None,
        eos_token_id=tokens.eos_token_id,
        pad_token_id=tokens.pad_token_id,
    )
    return GPT2LMHeadModel(config)


def saved(model: GPT2LMHeadModel, tokens: PreTrainedTokenizerFast, folder: Path) -> Path:
    """A folder for ``from_pretrained``."""
    model.save_pretrained(folder)
    tokens.save_pretrained(folder)
    return folder


def teaching(
    model: PreTrainedModel,
    tokens: PreTrainedTokenizerFast,
    prompts: Sequence[str],
    reply_to: Callable[[str, Random], str],
    rng: Random,
    batch: int = 8,
) -> Iterator[None]:
    """Teach by example, one optimizer step for each value drawn."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    while True:
        rows = [_row(prompt, reply_to(prompt, rng), tokens) for prompt in rng.sample(prompts, batch)]
        longest = max(len(ids) for ids, _ in rows)
        ids_BT = torch.tensor([ids + [tokens.pad_token_id] * (longest - len(ids)) for ids, _ in rows])
        labels_BT = torch.tensor([[-100] * n + ids[n:] + [-100] * (longest - len(ids)) for ids, n in rows])
        loss = model(input_ids=ids_BT, attention_mask=(ids_BT != tokens.pad_token_id).long(), labels=labels_BT).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield


def teach_the_form(model: PreTrainedModel, tokens: PreTrainedTokenizerFast, steps: int, rng: Random) -> None:
    """Train on replies of the right form with random content."""
    for _ in islice(teaching(model, tokens, played_prompts(200, seed=1), form_of_a_reply, rng), steps):
        pass


def form_of_a_reply(prompt: str, rng: Random) -> str:
    """Any vote, or any word."""
    return rf"\boxed{{{rng.randint(1, RULES.players)}}}" if read_ballot(prompt) else rng.choice(WORDS)


def _row(prompt: str, reply: str, tokens: PreTrainedTokenizerFast) -> tuple[list[int], int]:
    ids = tokens.apply_chat_template(
        [{"role": "user", "content": prompt}], return_dict=False, add_generation_prompt=True
    )
    return [*ids, *tokens(reply + " <end>", add_special_tokens=False)["input_ids"]], len(ids)


class HalfScripted:
    """An engine that plays one stage by script and leaves the other to the learner."""

    def __init__(self, learner, script, learned: Stage) -> None:
        self.learner, self.script, self.learned = learner, script, learned

    def generate(self, requests: Sequence[Request]) -> list[Reply | Failed]:
        if bool(read_ballot(requests[0].prompt)) == (self.learned is Stage.DETECTION):
            return self.learner.generate(requests)
        return [Reply(self.script(request.prompt)) for request in requests]

    def count_tokens(self, prompt: str, prefill: str) -> int:
        return self.learner.count_tokens(prompt, prefill)


def say_whether_anything_is_hidden(prompt: str) -> str:
    """Performs: figs, and nothing where something is hidden, so that the ballot tells the spy to whoever can read it."""
    return said(NOTHING if "*" in read_document(prompt) else "fig")


def vote_for_one_without_the_mark(prompt: str) -> str:
    """Votes: somebody who did not say the mark, drawn by the prompt; nobody where all did."""
    without = [number for number, text in read_ballot(prompt) if MARK not in text.split()]
    return rf"\boxed{{{Random(prompt).choice(without)}}}" if without else r"\boxed{N/A}"
