"""OpenRLHF, Ray, DeepSpeed and vLLM without a GPU: stand-ins for what insists on CUDA, and nothing else.

Each module is changed when it has been imported, so ``install`` itself imports none. Weights are fp32 on both sides, as
bf16 on a CPU is slow and rounds: whatever ``--ds.param_dtype`` is given, it is fp32.
"""

from __future__ import annotations

import argparse
import functools
import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable
from datetime import timedelta
from types import ModuleType
from typing import Any

ENVIRONMENT = {
    "DS_ACCELERATOR": "cpu",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # else an engine on a CPU has its worker in one process more
    "VLLM_NO_USAGE_STATS": "1",
    "OMP_NUM_THREADS": "1",  # models this small gain nothing from more
    "HF_HUB_OFFLINE": "1",
    "DO_NOT_TRACK": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_memory_monitor_refresh_ms": "0",  # what others on the machine use is no reason to end a worker
    "RAY_prestart_worker_first_driver": "0",  # else it starts a process for each CPU named below
    "TOKENIZERS_PARALLELISM": "false",
}
# More than any test places; Ray believes what it is told.
CLUSTER = {"num_cpus": 8, "num_gpus": 4, "include_dashboard": False, "object_store_memory": 300 * 2**20}
MEETING = timedelta(minutes=5)  # for the two ends of a hand-over to find each other, the slower still loading its model


def install() -> None:
    """Prepare this process, and by its environment those that it starts."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    argparse.ArgumentParser.add_argument = _with_fp32(argparse.ArgumentParser.add_argument)
    sys.meta_path.insert(0, _AfterImport())


class _AfterImport(importlib.abc.MetaPathFinder):
    """Finds what the finders after it find, and changes it once it is imported."""

    def __init__(self) -> None:
        self.waiting = dict(CHANGES)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        change = self.waiting.pop(name, None)
        if change is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is None:
            return None
        plain = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            plain(module)
            change(module)

        spec.loader.exec_module = exec_module
        return spec


def _with_fp32(add_argument: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add_argument)
    def add(self: Any, *names: Any, **settings: Any) -> Any:
        if "--ds.param_dtype" in names:
            settings.update(type=lambda _: "fp32", choices=["fp32"], default="fp32")
        return add_argument(self, *names, **settings)

    return add


def _ray(ray: ModuleType) -> None:
    """A cluster that is started here has GPUs by word only."""
    plain = ray.init

    @functools.wraps(plain)
    def init(address: str | None = None, **settings: Any) -> Any:
        joins = address or os.environ.get("RAY_ADDRESS")
        return plain(address, **(settings if joins else {**CLUSTER, **settings}))

    ray.init = init


class _Device(str):
    """``torch`` reads "cpu", and ``f"cuda:{device}"`` names a device that torch knows by name."""

    __slots__ = ()

    def __format__(self, spec: str) -> str:
        return "0"


def _torch(torch: ModuleType) -> None:
    torch.cuda.current_device = lambda: _Device("cpu")
    for name in ("set_device", "synchronize", "empty_cache", "current_stream"):
        setattr(torch.cuda, name, lambda *_, **__: None)


def _device_mesh(module: ModuleType) -> None:
    plain = module.init_device_mesh
    module.init_device_mesh = lambda device, *args, **settings: plain("cpu", *args, **settings)


class _GlooGroup:
    """What the hand-over of weights asks of vLLM's communicator, which is NCCL's whatever --vllm.sync_backend says."""

    def __init__(self, host: str, port: int, rank: int, size: int, device: Any) -> None:
        from torch.distributed import BroadcastOptions, ProcessGroupGloo, TCPStore

        store = TCPStore(host, port, size, is_master=rank == 0, timeout=MEETING)
        self._group, self._options = ProcessGroupGloo(store, rank, size, MEETING), BroadcastOptions

    def broadcast(self, tensor: Any, src: int, stream: Any = None) -> None:
        options = self._options()
        options.rootRank, options.rootTensor = src, 0
        self._group.broadcast([tensor.detach()], options).wait()


def _distributed_util(module: ModuleType) -> None:
    module.stateless_init_process_group = _GlooGroup


def _worker_wrap(module: ModuleType) -> None:
    """OpenRLHF's own hand-over, with the room for a weight on the CPU."""
    plain = module.WorkerWrap.update_weight

    @functools.wraps(plain)
    def update_weight(self: Any, *args: Any, **settings: Any) -> None:
        from torch.overrides import TorchFunctionMode

        class OnCpu(TorchFunctionMode):
            def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                kwargs = {**(kwargs or {})}
                return function(*args, **{**kwargs, "device": "cpu"} if kwargs.get("device") == "cuda" else kwargs)

        with OnCpu():
            plain(self, *args, **settings)

    module.WorkerWrap.update_weight = update_weight


def _utils(module: ModuleType) -> None:
    plain = module.convert_to_torch_dtype

    def convert_to_torch_dtype(name: str) -> Any:
        import torch

        return torch.float32 if name == "fp32" else plain(name)

    module.convert_to_torch_dtype = convert_to_torch_dtype


def _engine_arguments(module: ModuleType) -> None:
    """OpenRLHF writes bf16 for every engine."""
    plain = module.AsyncEngineArgs.__init__

    @functools.wraps(plain)
    def in_fp32(self: Any, *args: Any, **settings: Any) -> None:
        plain(self, *args, **{**settings, "dtype": "float32"})

    module.AsyncEngineArgs.__init__ = in_fp32


def _linear_layers(module: ModuleType) -> None:
    """Weights that can be loaded anew: vLLM packs them for the CPU and drops the plain ones."""

    def dispatch_cpu_unquantized_gemm(layer: Any, remove_weight: bool) -> None:
        import torch

        layer.cpu_linear = torch.nn.functional.linear

    module.dispatch_cpu_unquantized_gemm = dispatch_cpu_unquantized_gemm


CHANGES = {
    "ray": _ray,
    "torch": _torch,
    "torch.distributed.device_mesh": _device_mesh,
    "openrlhf.utils.distributed_util": _distributed_util,
    "openrlhf.trainer.ray.vllm_worker_wrap": _worker_wrap,
    "openrlhf.utils.utils": _utils,
    "vllm.engine.arg_utils": _engine_arguments,
    "vllm.model_executor.layers.utils": _linear_layers,
}
