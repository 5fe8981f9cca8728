"""Whole models by the reference evaluator of ONNX, which is written in NumPy."""

from collections.abc import Mapping
from functools import lru_cache

import numpy as np
from onnx.reference import ReferenceEvaluator

from gnomon.impl.adapters.onnx_graphs import Variant, graph
from gnomon.impl.adapters.onnx_models import Array
from gnomon.impl.adapters.onnx_whole import Model, Run
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration
from gnomon.spec.families import FAMILIES


@lru_cache(maxsize=32)
def evaluator(variant: Variant) -> Run:
    """The evaluator of a variant, for any parameters; its results by their names."""
    loaded = ReferenceEvaluator(graph(variant))

    def run(given: Mapping[str, Array]) -> dict[str, Array]:
        # NumPy warns where a number is not finite, though the result is then what it should be.
        with np.errstate(all="ignore"):
            outputs = loaded.run(None, {name: given[name] for name in loaded.input_names})
        return {name: np.asarray(output) for name, output in zip(loaded.output_names, outputs, strict=True)}

    return run


def model(configuration: Configuration, parameters: Mapping[str, Array]) -> Model:
    """The model whose graph takes the parameters as inputs."""
    return Model(evaluator, configuration, parameters)


declaration = Declaration(
    families=tuple(name for name in FAMILIES if name != "bloom"), dtypes=("float64", "float32", "float16")
)
