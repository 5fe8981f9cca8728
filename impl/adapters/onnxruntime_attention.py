"""The ONNX operators by ONNX Runtime on the CPU."""

from collections.abc import Mapping

import numpy as np
import onnxruntime
from onnx import ModelProto

from gnomon.impl.adapters.onnx_models import Array, Attributes, Evaluate, Operators
from gnomon.impl.declaration import Declaration
from gnomon.spec.conventions import Conventions
from gnomon.spec.precision import ABSOLUTE_SIGMOID, EAGER, ROUGH_TANH

FATAL_ONLY = 4  # what is merely an error is raised too


def session(model: ModelProto) -> Evaluate:
    """An inference session on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = FATAL_ONLY
    loaded = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def evaluate(inputs: Mapping[str, Array]) -> Array:
        output: Array = loaded.run(None, dict(inputs))[0]
        return output

    return evaluate


class Kernels(Operators):
    """The operators of ONNX Runtime, whose `Attention` wants a row of the mask for each query."""

    def attend(
        self, query: Array, key: Array, value: Array, mask: Array | None, opset: int, attributes: Attributes
    ) -> Array:
        """The output of `Attention` with the mask spread over the queries."""
        if mask is not None:
            mask = np.broadcast_to(mask, (*mask.shape[:-2], query.shape[-2], mask.shape[-1]))
        return super().attend(query, key, value, mask, opset, attributes)


kernels = Kernels(session)
attention = kernels.attention
multi_head_attention = kernels.multi_head_attention
linear = kernels.linear
relu = kernels.relu
gelu = kernels.gelu
gelu_tanh = kernels.gelu_tanh
silu = kernels.silu
softmax = kernels.softmax
layer_norm = kernels.layer_norm
rms_norm = kernels.rms_norm
embedding = kernels.embedding
rope = kernels.rope

declaration = Declaration(
    dtypes=("float32", "float16"),
    memory="quadratic",
    # Its Sigmoid is accurate to an absolute error only: silu(-17) comes out twice as large as it is.
    sites=EAGER | {ABSOLUTE_SIGMOID, ROUGH_TANH},
    conventions=Conventions(
        window="excluding-self",
        alignment="top-left",
        empty_row="zeros",
        masked_key="leaks",
        masked_value="leaks",
    ),
    paths={"attention": {"function body": kernels.function_body}},
)
