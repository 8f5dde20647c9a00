"""The model that is trained: load, compute log-probabilities of samples, update, export.

Weights that train are kept in fp32; on a GPU arithmetic runs in bf16. Dimensions: B samples, U distinct prompts among
them, S prompt (+ reply) tokens, padded on the left, T reply tokens, padded on the right, V vocabulary.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_layers import GradientCheckpointingLayer

from trainers.embedded.config import Config
from trainers.embedded.engine import ADAPTER, engine_for, plain_weights
from trainers.embedded.loss import Whole, loss_of
from trainers.local_engine import Encoder, cache_name, left_padded, positions
from trainers.samples import Sample


class NotFiniteError(RuntimeError):
    """The loss or the gradient is NaN or infinite; the weights were not touched."""


class Policy:
    """The learner, its reference, its optimizer and the engine that plays with its current weights."""

    def __init__(self, config: Config, folder: str) -> None:
        """Load ``folder`` (or a hub id). ``config`` says how to adapt and to optimise.

        Raises:
            ValueError: the model can't be loaded or can't be played with.
        """
        self.config, self.source = config, folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        wanted = config.ds.param_dtype
        self.bf16 = wanted == "bf16" or (wanted == "auto" and self.device.type == "cuda")
        self.tokenizer = _loaded(AutoTokenizer, folder)
        self.lora = config.ds.lora.rank > 0
        self.model = self._adapted(_load(folder, torch.bfloat16 if self.lora and self.bf16 else torch.float32)).to(
            self.device
        )
        self.reference = self._frozen_reference()
        if config.actor.gradient_checkpointing_enable:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            self.model.enable_input_require_grads()
        adam = config.actor.adam
        self.trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, adam.lr, adam.betas, adam.eps, adam.weight_decay)
        self.engine = engine_for(self, Encoder(self.tokenizer, config.template_options))
        self._hand_over()

    def _adapted(self, model: Any) -> Any:
        if not self.lora:
            return model
        from peft import LoraConfig, get_peft_model

        lora = self.config.ds.lora
        targets: Any = lora.target_modules
        if targets != "all-linear":
            targets = targets.split(",")
        config = LoraConfig(
            r=lora.rank, lora_alpha=lora.alpha, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"
        )
        with torch.random.fork_rng():  # the global generator is left as it was
            torch.random.manual_seed(self.config.train.seed)  # adapters begin from the run's seed
            return get_peft_model(model, config)

    def _frozen_reference(self) -> Any:
        """A copy for the KL term; with LoRA the model without its adapter serves."""
        if self.lora or self.config.algo.kl.init_coef == 0:
            return None
        reference = _load(self.source, torch.bfloat16 if self.bf16 else torch.float32).to(self.device)
        return reference.eval().requires_grad_(False)

    def precision(self) -> Any:
        """The arithmetic of every forward pass."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    def update(self, samples: Sequence[Sample], advantages: Sequence[float]) -> dict[str, float]:
        """All optimizer steps on one iteration's samples. Returns metrics, averaged over the steps.

        Raises:
            NotFiniteError: naming the games, before the weights are touched.
        """
        size = self.config.train.batch_size or len(samples)
        pairs = list(zip(samples, advantages, strict=True))
        steps = []
        for _ in range(self.config.train.max_epochs):
            for start in range(0, len(pairs), size):
                steps.append(self._step(pairs[start : start + size]))
        self._hand_over()
        return {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]}

    def _step(self, pairs: Sequence[tuple[Sample, float]]) -> dict[str, float]:
        whole = Whole(tokens=sum(len(sample.ids) for sample, _ in pairs), samples=len(pairs))
        self._prepare()
        self.optimizer.zero_grad(set_to_none=True)
        totals: dict[str, float] = {}
        for batch in micro_batches(pairs, self.config.train.micro_batch_size):
            for name, value in self._accumulate(batch, whole).items():
                totals[name] = (
                    max(totals.get(name, 0.0), value) if name.endswith("_max") else totals.get(name, 0.0) + value
                )
        norm = torch.nn.utils.clip_grad_norm_(self.trained, self.config.actor.max_norm)
        if not torch.isfinite(norm):
            self.optimizer.zero_grad(set_to_none=True)
            raise NotFiniteError(
                f"the gradient's norm is {norm.item()} in games {sorted({sample.game for sample, _ in pairs})}"
            )
        before = [parameter.detach().clone() for parameter in self.trained]
        self.optimizer.step()
        moved = torch.stack(
            [(new.detach() - old).float().norm() for new, old in zip(self.trained, before, strict=True)]
        ).norm()
        return {**totals, "grad_norm": norm.item(), "update_norm": moved.item()}

    def _prepare(self) -> None:
        """Without dropout: what is trained is the distribution that was sampled from."""
        self.model.eval()
        if self.config.actor.gradient_checkpointing_enable:
            for module in self.model.modules():  # a layer in evaluation mode isn't checkpointed
                module.training = isinstance(module, GradientCheckpointingLayer)

    def _accumulate(self, pairs: Sequence[tuple[Sample, float]], whole: Whole) -> dict[str, float]:
        samples = [sample for sample, _ in pairs]
        old_BT, mask_BT = self._sampled(samples)
        advantages_B = torch.tensor([advantage for _, advantage in pairs], device=self.device)
        logprobs_BT, entropy_BT = self._logprobs(self.model, samples)
        reference_BT = self._reference_logprobs(samples)
        loss = loss_of(logprobs_BT, old_BT, reference_BT, advantages_B, mask_BT, self.config.loss_rules, whole)
        if not torch.isfinite(loss.value):
            self.optimizer.zero_grad(set_to_none=True)
            raise NotFiniteError(
                f"the loss is {loss.value.item()} in games {sorted({sample.game for sample in samples})}"
            )
        loss.value.backward()
        gap_BT = ((logprobs_BT.detach() - old_BT) * mask_BT).abs()
        return {
            "loss": loss.value.item(),
            "policy_loss": loss.policy.item(),
            "kl": loss.kl.item(),
            "clip_ratio": loss.clipped.item(),
            "entropy": ((entropy_BT * mask_BT).sum() / whole.tokens).item(),
            "sampling/logp_difference_mean": (gap_BT.sum() / whole.tokens).item(),
            "sampling/logp_difference_max": gap_BT.max().item(),
        }

    def _sampled(self, samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
        """The log-probabilities as sampled, and the mask, padded on the right."""
        longest = max(len(sample.ids) for sample in samples)
        old_BT = torch.tensor([[*s.logprobs, *[0.0] * (longest - len(s.ids))] for s in samples], device=self.device)
        mask_BT = torch.tensor(
            [[1.0] * len(s.ids) + [0.0] * (longest - len(s.ids)) for s in samples], device=self.device
        )
        return old_BT, mask_BT

    def _reference_logprobs(self, samples: Sequence[Sample]) -> Tensor | None:
        if self.config.algo.kl.init_coef == 0:
            return None
        with torch.no_grad(), self._without_adapter():
            return self._logprobs(self.reference or self.model, samples)[0]

    @contextlib.contextmanager
    def _without_adapter(self) -> Iterator[None]:
        if self.lora:
            with self.model.disable_adapter():
                yield
        else:
            yield

    def _logprobs(self, model: Any, samples: Sequence[Sample]) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy (detached) of each reply token, at the temperature that it was sampled at."""
        longest = max(len(sample.ids) for sample in samples)
        ids_BT = torch.tensor(
            [[*s.ids, *[self.engine.pad] * (longest - len(s.ids))] for s in samples], device=self.device
        )
        mask_BT = torch.tensor([[1] * len(s.ids) + [0] * (longest - len(s.ids)) for s in samples], device=self.device)
        logits_of = self._logits_at_once if self.config.actor.gradient_checkpointing_enable else self._logits_by_prompt
        with self.precision():
            logits_BTV = logits_of(model, [sample.prompt_ids for sample in samples], ids_BT, mask_BT)
        logprobs_BTV = torch.log_softmax(logits_BTV.float() / self.config.rollout.temperature, dim=-1)
        with torch.no_grad():
            entropy_BT = -(logprobs_BTV.exp() * logprobs_BTV).sum(dim=-1)
        return logprobs_BTV.gather(2, ids_BT[:, :, None])[:, :, 0], entropy_BT

    def _logits_by_prompt(
        self, model: Any, prompts: Sequence[tuple[int, ...]], ids_BT: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """Compute each distinct prompt once, with gradient, and let all samples that share it go on from its cache."""
        distinct = list(dict.fromkeys(prompts))
        source_B = torch.tensor([distinct.index(prompt) for prompt in prompts], device=self.device)
        prompt_US, mask_US = left_padded(distinct, self.engine.pad, self.device)
        out = model(
            input_ids=prompt_US,
            attention_mask=mask_US,
            position_ids=positions(mask_US),
            use_cache=True,
            logits_to_keep=1,
        )
        first_B1V = out.logits[source_B]
        if ids_BT.shape[1] == 1:
            return first_B1V
        cache = out[cache_name(model)]
        cache.batch_select_indices(source_B)
        attended_BS = torch.cat([mask_US[source_B], mask_BT[:, :-1]], dim=1)
        rest = model(
            input_ids=ids_BT[:, :-1],
            attention_mask=attended_BS,
            position_ids=positions(attended_BS)[:, -ids_BT.shape[1] + 1 :],
            use_cache=True,
            **{cache_name(model): cache},
        )
        return torch.cat([first_B1V, rest.logits], dim=1)

    def _logits_at_once(
        self, model: Any, prompts: Sequence[tuple[int, ...]], ids_BT: Tensor, mask_BT: Tensor
    ) -> Tensor:
        """Prompt and reply in one sequence. Gradient checkpointing drops caches, so it needs this."""
        prompt_BS, prompt_mask_BS = left_padded(prompts, self.engine.pad, self.device)
        attended_BS = torch.cat([prompt_mask_BS, mask_BT], dim=1)
        out = model(
            input_ids=torch.cat([prompt_BS, ids_BT], dim=1),
            attention_mask=attended_BS,
            position_ids=positions(attended_BS),
            use_cache=False,
            logits_to_keep=ids_BT.shape[1] + 1,  # the last prompt token predicts the first of the reply
        )
        return out.logits[:, :-1]

    def state(self) -> dict[str, Any]:
        """What training has made, for a checkpoint: trained weights and optimizer."""
        names = [name for name, parameter in self.model.named_parameters() if parameter.requires_grad]
        weights = {name: parameter.detach().cpu() for name, parameter in zip(names, self.trained, strict=True)}
        return {"weights": weights, "optimizer": self.optimizer.state_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from ``state()``."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])  # brings its own settings: the config's are put back
        adam = self.config.actor.adam
        for group in self.optimizer.param_groups:
            group.update(lr=adam.lr, betas=adam.betas, eps=adam.eps, weight_decay=adam.weight_decay)
        self._hand_over()

    def _hand_over(self) -> None:
        """The engine plays with the weights as they are now."""
        self.engine.take(plain_weights(self.model))

    def export(self, folder: Path) -> None:
        """Write a plain transformers folder: adapters merged, tokenizer and chat template unchanged."""
        if self.lora:
            from peft import get_peft_model

            # merged on the CPU, so that the model that goes on training isn't touched by rounding
            with torch.random.fork_rng():
                merged = get_peft_model(_load(self.source, torch.float32), self.model.peft_config[ADAPTER])
            merged.load_state_dict(self.state()["weights"], strict=False)
            plain = merged.merge_and_unload()
        else:
            plain = self.model
        plain.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def micro_batches(pairs: Sequence[tuple[Sample, float]], size: int) -> list[list[tuple[Sample, float]]]:
    """Batches of at most ``size`` samples of similar length; samples that share a prompt stay together where they fit."""
    by_prompt: dict[tuple[int, ...], list[tuple[Sample, float]]] = {}
    for pair in pairs:
        by_prompt.setdefault(pair[0].prompt_ids, []).append(pair)
    batches: list[list[tuple[Sample, float]]] = []
    for _, group in sorted(by_prompt.items(), key=lambda item: len(item[0])):
        for part in (group[start : start + size] for start in range(0, len(group), size)):
            if not batches or len(batches[-1]) + len(part) > size:
                batches.append([])
            batches[-1].extend(part)
    return batches


def _load(folder: str, dtype: torch.dtype) -> Any:
    return _loaded(AutoModelForCausalLM, folder, dtype=dtype)


def _loaded(kind: Any, folder: str, **options: Any) -> Any:
    try:
        return kind.from_pretrained(folder, **options)
    except OSError as error:
        raise ValueError(f"no model at {folder!r} ({error}); give a transformers folder or a hub id") from error
