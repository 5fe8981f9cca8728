"""Whole models by ONNX Runtime on the CPU, with their parameters as inputs, step by step, or fixed and fused."""

from collections.abc import Mapping
from functools import lru_cache

import onnxruntime
from onnx import ModelProto, numpy_helper

from gnomon.impl.adapters.onnx_graphs import Variant, graph
from gnomon.impl.adapters.onnx_models import Array
from gnomon.impl.adapters.onnx_whole import Bare, Model, Run
from gnomon.impl.declaration import Declaration
from gnomon.spec.configuration import Configuration
from gnomon.spec.families import FAMILIES
from gnomon.spec.precision import ABSOLUTE_SIGMOID, EVERYWHERE, ROUGH_TANH

FATAL_ONLY = 4  # what is merely an error is raised too


def session(made: ModelProto) -> Run:
    """An inference session on one thread; its results by their names."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = FATAL_ONLY
    loaded = onnxruntime.InferenceSession(made.SerializeToString(), options, providers=["CPUExecutionProvider"])
    inputs = [i.name for i in loaded.get_inputs()]
    outputs = [o.name for o in loaded.get_outputs()]

    def run(given: Mapping[str, Array]) -> dict[str, Array]:
        return dict(zip(outputs, loaded.run(None, {name: given[name] for name in inputs}), strict=True))

    return run


@lru_cache(maxsize=32)
def shared(variant: Variant) -> Run:
    """The session of a variant, for any parameters."""
    return session(graph(variant))


def model(configuration: Configuration, parameters: Mapping[str, Array]) -> Model:
    """The model whose graph takes the parameters as inputs."""
    return Model(shared, configuration, parameters)


def fixed(configuration: Configuration, parameters: Mapping[str, Array]) -> Bare:
    """The same model with its parameters fixed in the graph, which the runtime then folds, fuses and packs."""
    weights = [numpy_helper.from_array(array, name) for name, array in parameters.items()]

    @lru_cache(maxsize=4)
    def load(variant: Variant) -> Run:
        made = graph(variant)
        made.graph.initializer.extend(weights)
        inputs = [i for i in made.graph.input if i.name not in parameters]
        del made.graph.input[:]
        made.graph.input.extend(inputs)
        return session(made)

    return Bare(load, configuration, parameters)


declaration = Declaration(
    families=tuple(name for name in FAMILIES if name != "bloom"),
    dtypes=("float32", "float16"),
    sites=EVERYWHERE | {ABSOLUTE_SIGMOID, ROUGH_TANH},
    paths={"model": {"fixed parameters": fixed}},
)
