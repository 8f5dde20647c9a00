"""What packs samples, on a GPU."""


def _needs_a_gpu(*_: object, **__: object) -> None:
    raise RuntimeError("flash_attn needs a GPU; leave out --ds.packing_samples and --ds.ring_attn_size")


index_first_axis = pad_input = rearrange = unpad_input = _needs_a_gpu
