"""A prefix tree through a model gives each sequence's own logits; what can't be served is found out."""
# ruff: noqa: E402 - the imports below need what importorskip asks for

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="the model runs on it")
pytest.importorskip("transformers", reason="the model is one of its")

from tests.trainers import tiny_models
from trainers.engines.prefix_tree import grow
from trainers.engines.tree_attention import (
    CASCADE,
    METHODS,
    attending,
    fitting,
    layer_kinds,
    mask_of,
    method_for,
    reason_against,
    run_tree,
)

SERVED = {**tiny_models.ARCHITECTURES, **tiny_models.SLIDING}
SEQUENCES = [(5, 6, 7, 8, 9, 10, 11), (5, 6, 7, 8, 12, 5, 6, 9), (5, 6, 13), (14, 15), (5, 6, 7, 8, 9, 10, 11)]


def errors(model, method: str, sequences=SEQUENCES) -> float:
    """The largest difference to the logits of each sequence by itself."""
    tree = grow(sequences)
    with torch.no_grad(), attending(model, method):
        logits_TV = run_tree(model, tree, method, 0, use_cache=False).logits[0]
    with torch.no_grad():
        alone = [model(torch.tensor([one])).logits[0] for one in sequences]
    return max((logits_TV[list(path)] - own).abs().max().item() for path, own in zip(tree.paths, alone, strict=True))


@pytest.mark.parametrize("architecture", SERVED)
def test_a_tree_gives_every_sequence_its_own_logits(architecture):
    model = tiny_models.model(architecture)
    for method in METHODS:
        assert reason_against(model, method) is None
        assert errors(model, fitting(model, 8, method)) < 1e-4


@pytest.mark.parametrize("architecture", ["gemma3", "mistral"])
def test_windows_matter_and_only_the_mask_knows_them(architecture):
    model = tiny_models.model(architecture)
    assert fitting(model, tiny_models.WINDOW, "cascade") == "cascade"
    assert fitting(model, tiny_models.WINDOW + 1, "cascade") == "mask"
    assert errors(model, "cascade", [one[: tiny_models.WINDOW] for one in SEQUENCES]) < 1e-4
    assert errors(model, "cascade") > 1e-2


def test_a_model_without_windows_keeps_its_method_at_any_length():
    assert fitting(tiny_models.model("qwen3"), 10**6, "cascade") == "cascade"


def test_logits_are_computed_only_where_they_are_read():
    model, tree = tiny_models.model("llama"), grow(SEQUENCES)
    read_N = torch.tensor([2, 0, 5])
    with torch.no_grad(), attending(model, "mask"):
        everywhere = run_tree(model, tree, "mask", 0, use_cache=False).logits[0]
        some = run_tree(model, tree, "mask", read_N, use_cache=False).logits[0]
    assert torch.allclose(some, everywhere[read_N], atol=1e-6)


def test_a_mask_lets_through_ancestors_within_the_window():
    tree = grow([(1, 2, 3), (1, 4)])  # in order: 1 2 3 4
    rows = {
        None: ["x...", "xx..", "xxx.", "x..x"],
        2: ["x...", "xx..", ".xx.", "x..x"],
        1: ["x...", ".x..", "..x.", "...x"],
    }
    for window, expected in rows.items():
        mask = mask_of(tree, torch.device("cpu"), torch.float32, window)
        assert mask.shape == (1, 1, 4, 4)
        assert ["".join("x" if value == 0 else "." for value in row) for row in mask[0, 0].tolist()] == expected
        assert torch.isfinite(mask.to(torch.bfloat16)).all()


def test_the_models_own_attention_is_put_back():
    model = tiny_models.model("llama")
    with pytest.raises(ValueError, match="prefix trees alone"), attending(model, "cascade"):
        model(torch.tensor([[5, 6]]))
    assert model.config._attn_implementation == "sdpa"
    with attending(model, "cascade"), attending(model, "cascade"):
        assert model.config._attn_implementation == CASCADE
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("architecture", tiny_models.UNSERVED)
def test_architectures_that_cannot_branch_are_found_out(architecture):
    model = tiny_models.model(architecture)
    method, reason = method_for(model, "auto")
    assert method is None
    assert type(model).__name__ in reason
    for wanted in METHODS:
        with pytest.raises(ValueError, match=f"shared_prompts is '{wanted}', and {type(model).__name__}"):
            method_for(model, wanted)


def test_flash_attention_takes_no_mask():
    model = tiny_models.model("llama")
    model.config._attn_implementation_internal = "flash_attention_2"
    assert "flash_attention_2" in str(reason_against(model, "mask"))


@pytest.mark.parametrize(("name", "value"), [("softcap", 30.0), ("s_aux", torch.zeros(4)), ("dropout", 0.1)])
def test_attention_with_more_to_it_than_the_kernel_knows_is_refused(monkeypatch, name, value):
    from transformers.models.llama import modeling_llama

    model = tiny_models.model("llama")
    forward = modeling_llama.ALL_ATTENTION_FUNCTIONS[CASCADE]
    monkeypatch.setitem(
        modeling_llama.ALL_ATTENTION_FUNCTIONS._global_mapping,
        CASCADE,
        lambda *args, **options: forward(*args, **{**options, name: value}),
    )
    assert "give --actor.shared_prompts mask" in str(reason_against(model, "cascade"))


def test_the_way_is_chosen_in_order_and_can_be_named():
    model = tiny_models.model("qwen3")
    assert method_for(model, "auto") == ("cascade", "")
    assert method_for(model, "mask") == ("mask", "")
    assert method_for(model, "off") == (None, "turned off")


def test_kinds_of_layers_come_with_their_windows():
    kinds = {name: layer_kinds(tiny_models.model(name)) for name in ("llama", "gemma3", "mistral", "mamba")}
    assert kinds["llama"] == {"full_attention": None}
    assert kinds["gemma3"] == {"sliding_attention": tiny_models.WINDOW, "full_attention": None}
    assert set(kinds["mistral"].values()) == {tiny_models.WINDOW}
    assert set(kinds["mamba"]) == {"linear_attention"}
