"""The scaled dot-product attention of PyTorch, by the kernel that it chooses and by each that can be named."""

import warnings

from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

from gnomon.impl.adapters.torch_paths import recorded_gradients
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import FUSED


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The attention of the kernel that PyTorch chooses for these arguments."""
    if mask is not None and causal:
        raise NotImplementedError("scaled_dot_product_attention takes a mask or is_causal, not both")
    grouped = query.shape[1] != key.shape[1]
    return scaled_dot_product_attention(
        query, key, value, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=grouped
    )


def math_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The same attention by the kernel made of separate operations."""
    with sdpa_kernel(SDPBackend.MATH):
        return attention(query, key, value, mask=mask, causal=causal, scale=scale)


def flash_kernel(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """The same attention by the tiled kernel with an online softmax."""
    try:
        with warnings.catch_warnings(), sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            # PyTorch warns of every reason before it raises, and the exception is enough.
            warnings.simplefilter("ignore", UserWarning)
            return attention(query, key, value, mask=mask, causal=causal, scale=scale)
    except RuntimeError as error:
        if "No available kernel" not in str(error) and "No viable backend" not in str(error):
            raise
        raise NotImplementedError("the flash kernel does not take these shapes or strides") from error


declaration = Declaration(
    framework="torch",
    dtypes=("float64", "float32", "bfloat16", "float16"),
    sites=FUSED | {"gradient"},  # those of heads that are shared are stored one by one
    memory="linear",
    conventions=Conventions(alignment="top-left", empty_row="zeros", masked_key="leaks", masked_value="leaks"),
    paths={
        "attention": {
            "math kernel": math_kernel,
            "flash kernel": flash_kernel,
            "recorded gradients": recorded_gradients(attention),
        }
    },
)
