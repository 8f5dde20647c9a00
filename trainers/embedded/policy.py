"""The model that is trained: load it, compute log-probabilities of samples, update it, export it.

Trained weights are fp32; on a GPU arithmetic is bf16. Dimensions: B samples of a micro-batch, T reply tokens padded on the
right, N reply tokens of all samples one after another.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.modeling_layers import GradientCheckpointingLayer

from trainers.config import Actor, Config, Ds, Train
from trainers.embedded.engine import ADAPTER, GPU_SHARE, ROWS, TOKENS, SharedEngine, plain_weights
from trainers.embedded.logprobs import Pair, fed, padded_batches, padded_logprobs, tree_batches, tree_logprobs
from trainers.embedded.loss import LossRules, Whole, loss_of
from trainers.engines.encoder import Encoder, end_tokens
from trainers.engines.tree_attention import attending, fitting, method_for
from trainers.engines.vllm import VllmEngine
from trainers.samples import Sample

Accumulate = Callable[[Sequence[Pair], Whole], dict[str, float]]
"""Backpropagates a micro-batch and returns its share of the metrics of a step, whose size is given."""


class NotFiniteError(RuntimeError):
    """The loss or the gradient is NaN or infinite; the weights were not touched."""


class Policy:
    """The learner, its reference, its optimizer and the engine that plays with its current weights."""

    def __init__(
        self, folder: str, actor: Actor, ds: Ds, train: Train, kl_coef: float, temperature: float, max_tokens: int
    ) -> None:
        """Load ``folder`` (or a hub id); an update computes at most ``max_tokens`` at a time, or one sample.

        Nothing plays before ``play_with``.

        Raises:
            ValueError: the model can't be loaded or can't be played with.
        """
        self.source, self.actor, self.train, self._lora = folder, actor, train, ds.lora
        self.temperature, self.max_tokens = temperature, max_tokens
        self.rules = LossRules(actor.eps_clip, kl_coef, actor.loss_agg_mode, actor.ratio)
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.bf16 = ds.param_dtype == "bf16" or (ds.param_dtype == "auto" and self.device.type == "cuda")
        self.tokenizer = _loaded(AutoTokenizer, folder)
        self.lora = ds.lora.rank > 0
        self.model = self._adapted(_load(folder, torch.bfloat16 if self.lora and self.bf16 else torch.float32)).to(
            self.device
        )
        self.reference = self._frozen_reference()
        if actor.gradient_checkpointing_enable:
            self.model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            self.model.enable_input_require_grads()
        adam = actor.adam
        self.trained = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.AdamW(self.trained, adam.lr, adam.betas, adam.eps, adam.weight_decay)
        self.sharing, self.sharing_refused = self._sharing()

    def play_with(self, engine: SharedEngine | VllmEngine) -> None:
        """Let ``engine`` play, with the weights as they are after each update."""
        self.engine, self.pad = engine, engine.pad
        self._hand_over()

    def _sharing(self) -> tuple[str | None, str]:
        wanted = self.actor.shared_prompts
        self.model.eval()
        with self.precision():
            method, refused = method_for(self.model, wanted)
        if wanted == "auto" and method is None:
            warnings.warn(f"prompts are not shared, each sample is computed in full: {refused}", stacklevel=3)
        return method, refused

    def _adapted(self, model: Any) -> Any:
        if not self.lora:
            return model
        from peft import LoraConfig, get_peft_model

        lora = self._lora
        targets: Any = lora.target_modules
        if targets != "all-linear":
            targets = targets.split(",")
        config = LoraConfig(
            r=lora.rank, lora_alpha=lora.alpha, lora_dropout=0.0, target_modules=targets, task_type="CAUSAL_LM"
        )
        with torch.random.fork_rng():  # the global generator is left as it was
            torch.random.manual_seed(self.train.seed)  # adapters begin from the run's seed
            return get_peft_model(model, config)

    def _frozen_reference(self) -> Any:
        """Return a copy for the KL term; with LoRA the model without its adapter serves."""
        if self.lora or self.rules.kl_coef == 0:
            return None
        reference = _load(self.source, torch.bfloat16 if self.bf16 else torch.float32).to(self.device)
        return reference.eval().requires_grad_(False)

    def precision(self) -> Any:
        """Return the context of every forward pass: its arithmetic."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16)

    def update(self, samples: Sequence[Sample], advantages: Sequence[float]) -> dict[str, float]:
        """Take all optimizer steps on one iteration's samples. Return metrics, averaged over the steps.

        Raises:
            NotFiniteError: naming the games, before the weights are touched.
        """
        return self._steps(list(zip(samples, advantages, strict=True)), self._accumulate)

    def fit(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Take all optimizer steps of cross-entropy on the samples' replies. Return metrics, averaged over the steps.

        Raises:
            NotFiniteError: naming the games, before the weights are touched.
        """
        return self._steps([(sample, 1.0) for sample in samples], self._fit)

    def _steps(self, pairs: Sequence[Pair], accumulate: Accumulate) -> dict[str, float]:
        size = self.train.batch_size or len(pairs)
        steps = []
        for _ in range(self.train.max_epochs):
            for start in range(0, len(pairs), size):
                steps.append(self._step(pairs[start : start + size], accumulate))
        self._hand_over()
        return {name: sum(step[name] for step in steps) / len(steps) for name in steps[0]}

    def _step(self, pairs: Sequence[Pair], accumulate: Accumulate) -> dict[str, float]:
        """Take one optimizer step. Micro-batches add up to the mean over the step's tokens (or samples)."""
        whole = Whole(tokens=sum(len(sample.ids) for sample, _ in pairs), samples=len(pairs))
        self._prepare()
        self.optimizer.zero_grad(set_to_none=True)
        # gradients and metrics of each micro-batch are shares of the step's, so they are summed; maxima aren't
        totals: dict[str, float] = {}
        batches_of = padded_batches if self.sharing is None else tree_batches
        for batch in batches_of(pairs, self.max_tokens, self.train.micro_batch_size):
            for name, value in accumulate(batch, whole).items():
                totals[name] = (
                    max(totals.get(name, 0.0), value) if name.endswith("_max") else totals.get(name, 0.0) + value
                )
        # a gradient that isn't finite must not reach the optimizer, whose moments would keep it
        norm = torch.nn.utils.clip_grad_norm_(self.trained, self.actor.max_norm)
        if not torch.isfinite(norm):
            self.optimizer.zero_grad(set_to_none=True)
            raise NotFiniteError(
                f"the gradient's norm is {norm.item()} in games {sorted({sample.game for sample, _ in pairs})}"
            )
        # the distance that the weights move, all parameters as one vector
        before = [parameter.detach().clone() for parameter in self.trained]
        self.optimizer.step()
        moved = torch.stack(
            [(new.detach() - old).float().norm() for new, old in zip(self.trained, before, strict=True)]
        ).norm()
        return {**totals, "grad_norm": norm.item(), "update_norm": moved.item()}

    def _prepare(self) -> None:
        """Switch dropout off, so that the distribution trained is the one that was sampled from."""
        self.model.eval()
        if self.actor.gradient_checkpointing_enable:
            for module in self.model.modules():  # a layer in evaluation mode isn't checkpointed
                module.training = isinstance(module, GradientCheckpointingLayer)

    def _accumulate(self, pairs: Sequence[Pair], whole: Whole) -> dict[str, float]:
        """Backpropagate one micro-batch and return its share of the step's metrics."""
        samples = [sample for sample, _ in pairs]
        # (B, T): log-probabilities as sampled, and a mask that leaves the padding out; (B,): one advantage per reply
        old_BT = _padded([torch.tensor(sample.logprobs, device=self.device) for sample in samples])
        mask_BT = _padded([torch.ones(len(sample.ids), device=self.device) for sample in samples])
        advantages_B = torch.tensor([advantage for _, advantage in pairs], device=self.device)
        method = self.method_for(samples)
        # checkpointed layers run again in backward, so the way of attending must stay until it has ended
        with attending(self.model, method):
            logprobs_BT, entropy_BT = self._logprobs(self.model, samples, method)
            reference_BT = self._reference_logprobs(samples, method)
            loss = loss_of(logprobs_BT, old_BT, reference_BT, advantages_B, mask_BT, self.rules, whole)
            self._backward(loss.value, samples)
        # how far the trainer's log-probabilities are from the engine's; 0 where both compute alike
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

    def _fit(self, pairs: Sequence[Pair], whole: Whole) -> dict[str, float]:
        """Backpropagate the cross-entropy of one micro-batch and return its share of the step's metrics."""
        samples = [sample for sample, _ in pairs]
        method = self.method_for(samples)
        with attending(self.model, method):
            logprobs_BT, entropy_BT = self._logprobs(self.model, samples, method)
            loss = -logprobs_BT.sum() / whole.tokens  # padding is 0
            self._backward(loss, samples)
        return {"loss": loss.item(), "entropy": (entropy_BT.sum() / whole.tokens).item()}

    def _backward(self, loss: Tensor, samples: Sequence[Sample]) -> None:
        if not torch.isfinite(loss):
            self.optimizer.zero_grad(set_to_none=True)
            raise NotFiniteError(f"the loss is {loss.item()} in games {sorted({sample.game for sample in samples})}")
        loss.backward()

    def method_for(self, samples: Sequence[Sample]) -> str | None:
        """Choose how shared prompts are computed for these samples; None: each sample in full."""
        return self.sharing and fitting(self.model, max(len(fed(sample)) for sample in samples), self.sharing)

    def _reference_logprobs(self, samples: Sequence[Sample], method: str | None) -> Tensor | None:
        if self.rules.kl_coef == 0:
            return None
        reference = self.reference or self.model
        with torch.no_grad(), self._without_adapter(), attending(reference, method):
            return self._logprobs(reference, samples, method)[0]

    @contextlib.contextmanager
    def _without_adapter(self) -> Iterator[None]:
        if self.lora:
            with self.model.disable_adapter():
                yield
        else:
            yield

    def _logprobs(self, model: Any, samples: Sequence[Sample], method: str | None) -> tuple[Tensor, Tensor]:
        """Log-probability and entropy (detached) of each reply token, at the temperature that it was sampled at."""
        with self.precision():
            if method is None:
                logprobs_N, entropy_N = padded_logprobs(model, samples, self.pad, self.temperature)
            else:
                logprobs_N, entropy_N = tree_logprobs(model, samples, method, self.temperature)
        lengths = [len(sample.ids) for sample in samples]
        return _padded(logprobs_N.split(lengths)), _padded(entropy_N.split(lengths))

    def state(self) -> dict[str, Any]:
        """Return the trained weights and the optimizer's state, for a checkpoint."""
        names = [name for name, parameter in self.model.named_parameters() if parameter.requires_grad]
        weights = {name: parameter.detach().cpu() for name, parameter in zip(names, self.trained, strict=True)}
        return {"weights": weights, "optimizer": self.optimizer.state_dict()}

    def load_state(self, state: dict[str, Any]) -> None:
        """Go on from ``state()``."""
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                if parameter.requires_grad:
                    parameter.copy_(state["weights"][name])
        self.optimizer.load_state_dict(state["optimizer"])  # it brings its settings of then, which now's replace
        adam = self.actor.adam
        for group in self.optimizer.param_groups:
            group.update(lr=adam.lr, betas=adam.betas, eps=adam.eps, weight_decay=adam.weight_decay)
        self._hand_over()

    def _hand_over(self) -> None:
        """Give the engine the weights as they are now."""
        self.engine.take(plain_weights(self.model))

    def export(self, folder: Path) -> None:
        """Write a plain transformers folder: adapters merged, tokenizer and chat template unchanged."""
        if self.lora:
            from peft import get_peft_model

            # merge a fresh copy on the CPU, so that rounding doesn't touch the model that goes on training
            with torch.random.fork_rng():
                merged = get_peft_model(_load(self.source, torch.float32), self.model.peft_config[ADAPTER])
            merged.load_state_dict(self.state()["weights"], strict=False)
            plain = merged.merge_and_unload()
        else:
            plain = self.model
        plain.save_pretrained(folder)
        self.tokenizer.save_pretrained(folder)


def policy_of(config: Config, folder: str) -> Policy:
    """Return the learner that a config asks for, and the engine that ``--rollout.engine`` names.

    Raises:
        ValueError: the model can't be loaded or can't be played with; vLLM isn't installed as it was tried.
    """
    rollout, vllm = config.rollout, config.vllm
    policy = Policy(
        folder,
        config.actor,
        config.ds,
        config.train,
        kl_coef=config.algo.kl.init_coef,
        temperature=rollout.temperature,
        max_tokens=config.tokens_at_a_time,
    )
    encoder = Encoder(policy.tokenizer, config.template_options)
    rows, tokens = rollout.micro_batch_size or ROWS, rollout.max_tokens_per_gpu or TOKENS
    if rollout.engine == "transformers":
        engine: Any = SharedEngine(policy.model, encoder, rows, tokens, policy.sharing, precision=policy.precision)
    else:
        engine = VllmEngine(
            folder,
            encoder,
            end_tokens(policy.model, encoder.tokenizer),
            dtype=torch.bfloat16 if policy.bf16 else torch.float32,
            max_len=config.data.max_len,
            rows=rows,
            gpu_memory_utilization=vllm.gpu_memory_utilization or GPU_SHARE,
            enforce_eager=vllm.enforce_eager,
            enable_prefix_caching=vllm.enable_prefix_caching,
        )
    policy.play_with(engine)
    return policy


def _padded(rows: Sequence[Tensor]) -> Tensor:
    """Stack rows of different lengths in one tensor, zeros on the right."""
    return torch.nn.utils.rnn.pad_sequence(list(rows), batch_first=True)


def _load(folder: str, dtype: torch.dtype) -> Any:
    return _loaded(AutoModelForCausalLM, folder, dtype=dtype)


def _loaded(kind: Any, folder: str, **options: Any) -> Any:
    try:
        return kind.from_pretrained(folder, **options)
    except OSError as error:
        raise ValueError(f"no model at {folder!r} ({error}); give a transformers folder or a hub id") from error
