"""A contestant in vLLM answers as the same model does in transformers, by each way of decoding that protocols ask for."""

from __future__ import annotations

import pytest

pytest.importorskip("vllm", reason="see tests/environments")

from benchmarks.evaluation.contestants import Loading, contestant
from benchmarks.evaluation.generations import Ask, Finished, answer_all
from trainers.engines import Sampling

pytestmark = pytest.mark.vllm
GREEDY = Sampling(8, greedy=True)
AMONG_FEW = Sampling(8, temperature=1.5, top_k=4, top_p=0.9)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    from tests.trainers.engines import vllm_models

    return vllm_models.save("llama", tmp_path_factory.mktemp("vllm") / "model")


def texts(folder, place, engine, asks, seed=0):
    who = contestant("model", folder, Loading(engine=engine, max_len=64, rows=4))
    answers = answer_all(who, asks, Finished(place / engine / "generations.jsonl"), seed, "a test")
    who.close()
    return [answer.text for answer in answers]


def test_greedy_and_narrowed_answers_are_those_of_transformers_and_come_again(folder, tmp_path):
    prompts = ["1 2 3", "2 1", "3 3 1 2"]
    greedy = [Ask("set", f"{i}", prompt, GREEDY) for i, prompt in enumerate(prompts)]
    alone = [ask._replace(sampling=Sampling(8, temperature=1.5, top_k=1)) for ask in greedy]  # the likeliest token
    sampled = [Ask("set", f"{i}", prompt, AMONG_FEW, i) for i, prompt in enumerate(prompts)]
    expected = texts(folder, tmp_path / "a", "transformers", greedy)
    assert texts(folder, tmp_path / "b", "vllm", [*greedy, *alone]) == expected * 2
    drawn = texts(folder, tmp_path / "c", "vllm", sampled)
    assert drawn == texts(folder, tmp_path / "d", "vllm", sampled)
    assert drawn != texts(folder, tmp_path / "e", "vllm", sampled, seed=1)
