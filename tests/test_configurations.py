"""`config.json` of every family: as the models were released, as transformers reads it, and one sentence where not."""

import json
from dataclasses import replace
from typing import Any

import pytest

from gnomon.impl.configurations import FAMILIES, BadConfiguration, configuration_of, read_configuration
from gnomon.spec.configuration import CONFIGURATIONS, Configuration, Scaling
from gnomon.spec.families import ROTARY, member

Given = dict[str, Any]


def llama(vocabulary, width, layers, heads, kv_heads, inner, **more: Any) -> Given:
    return {
        "model_type": "llama", "vocab_size": vocabulary, "hidden_size": width, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "intermediate_size": inner,
        "hidden_act": "silu", "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False, **more,
    }  # fmt: skip


def gpt2(width, layers, heads) -> Given:
    return {
        "model_type": "gpt2", "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "n_ctx": 1024,
        "n_positions": 1024, "vocab_size": 50257, "n_embd": width, "n_layer": layers, "n_head": heads,
    }  # fmt: skip


def pythia(width, layers, heads, **more: Any) -> Given:
    return {
        "model_type": "gpt_neox", "hidden_act": "gelu", "hidden_size": width, "intermediate_size": 4 * width,
        "layer_norm_eps": 1e-5, "max_position_embeddings": 2048, "num_attention_heads": heads,
        "num_hidden_layers": layers, "rotary_emb_base": 10000, "rotary_pct": 0.25, "tie_word_embeddings": False,
        "use_parallel_residual": True, "vocab_size": 50304, **more,
    }  # fmt: skip


def gemma(width, layers, heads, kv_heads, inner, **more: Any) -> Given:
    return llama(
        256000, width, layers, heads, kv_heads, inner,
        **{"model_type": "gemma", "head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "rms_norm_eps": 1e-6} | more,
    )  # fmt: skip


GEMMA_2 = {
    "model_type": "gemma2", "hidden_activation": "gelu_pytorch_tanh", "attention_bias": False,
    "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "query_pre_attn_scalar": 256,
    "sliding_window": 4096, "sliding_window_size": 4096,
}  # fmt: skip
QWEN = {"rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "use_sliding_window": False}
QWEN2 = QWEN | {"model_type": "qwen2", "sliding_window": 131072, "max_window_layers": 28}
QWEN3 = QWEN | {"model_type": "qwen3", "head_dim": 128, "attention_bias": False, "sliding_window": None,
                "rope_scaling": None}  # fmt: skip
# As they were released, without what no forward pass depends on.
RELEASED: dict[str, Given] = {
    "gpt2": gpt2(768, 12, 12),
    "gpt2-medium": gpt2(1024, 24, 16),
    "gpt2-large": gpt2(1280, 36, 20),
    "gpt2-xl": gpt2(1600, 48, 25),
    "llama-2-7b": llama(32000, 4096, 32, 32, 32, 11008, rope_scaling=None, pretraining_tp=1),
    "llama-2-13b": llama(32000, 5120, 40, 40, 40, 13824),
    "llama-2-70b": llama(32000, 8192, 80, 64, 8, 28672),
    "llama-3-8b": llama(128256, 4096, 32, 32, 8, 14336, rope_theta=500000.0),
    "llama-3-70b": llama(128256, 8192, 80, 64, 8, 28672, rope_theta=500000.0),
    "mistral-7b": llama(32000, 4096, 32, 32, 8, 14336, model_type="mistral", sliding_window=4096),
    "qwen2-7b": llama(152064, 3584, 28, 28, 4, 18944, **QWEN2),
    "qwen2-0.5b": llama(151936, 896, 24, 14, 2, 4864, **QWEN2 | {"tie_word_embeddings": True}),
    "qwen3-0.6b": llama(151936, 1024, 28, 16, 8, 3072, **QWEN3 | {"tie_word_embeddings": True}),
    "qwen3-8b": llama(151936, 4096, 36, 32, 8, 12288, **QWEN3),
    "gemma-2b": gemma(2048, 18, 8, 1, 16384, hidden_act="gelu", tie_word_embeddings=True),
    "gemma-7b": gemma(3072, 28, 16, 16, 24576, tie_word_embeddings=True),
    "gemma-2-2b": gemma(2304, 26, 8, 4, 9216, **GEMMA_2, tie_word_embeddings=True),
    "gemma-2-9b": gemma(3584, 42, 16, 8, 14336, **GEMMA_2, tie_word_embeddings=True),
    "phi-2": {
        "model_type": "phi", "hidden_act": "gelu_new", "hidden_size": 2560, "intermediate_size": 10240,
        "layer_norm_eps": 1e-5, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "partial_rotary_factor": 0.4, "qk_layernorm": False, "rope_scaling": None, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "vocab_size": 51200,
    },
    "phi-3-mini": llama(
        32064, 3072, 32, 32, 32, 8192, model_type="phi3", sliding_window=2047, max_position_embeddings=4096,
        original_max_position_embeddings=4096, rope_scaling=None,
    ),
    "olmo-2-7b": llama(100352, 4096, 32, 32, 32, 11008, model_type="olmo2", rms_norm_eps=1e-6, rope_theta=500000),
    "command-r": {
        "model_type": "cohere", "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": 22528,
        "layer_norm_eps": 1e-5, "logit_scale": 0.0625, "num_attention_heads": 64, "num_hidden_layers": 40,
        "num_key_value_heads": 64, "rope_theta": 8000000.0, "use_qk_norm": False, "vocab_size": 256000,
    },
    "falcon-7b": {
        "model_type": "falcon", "alibi": False, "apply_residual_connection_post_layernorm": False, "bias": False,
        "hidden_size": 4544, "layer_norm_epsilon": 1e-5, "multi_query": True, "new_decoder_architecture": False,
        "num_attention_heads": 71, "num_hidden_layers": 32, "parallel_attn": True, "vocab_size": 65024,
    },
    "pythia-70m": pythia(512, 6, 8),
    "pythia-160m": pythia(768, 12, 12),
    "pythia-410m": pythia(1024, 24, 16),
    "pythia-1b": pythia(2048, 16, 8),
    "gpt-neox-20b": pythia(6144, 44, 64, vocab_size=50432, hidden_act="gelu_fast"),
    "bert-base-uncased": {
        "model_type": "bert", "hidden_act": "gelu", "hidden_size": 768, "intermediate_size": 3072,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "num_attention_heads": 12, "num_hidden_layers": 12,
        "position_embedding_type": "absolute", "type_vocab_size": 2, "vocab_size": 30522,
    },
}  # fmt: skip


def written_out(c: Configuration) -> Configuration:
    """The same, the number of rotated features as a number where there are any."""
    return replace(c, rotary=replace(c.rotary, width=c.rotated))


@pytest.mark.parametrize("name", [name for name in CONFIGURATIONS if name != "2017"])
def test_a_released_file_gives_the_named_configuration(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(RELEASED[name]))
    for place in (tmp_path, tmp_path / "config.json"):
        assert written_out(read_configuration(place)) == written_out(CONFIGURATIONS[name])


# Against transformers.

SIZES = {"vocabulary": 11, "layers": 2, "heads": 4, "head_width": 8, "feed_forward": 12}
OUR_NAMES = {name: name.replace("gpt_neox", "gpt-neox") for name in FAMILIES if name != "phi"}
SCALINGS = (
    Scaling(kind="linear", factor=4.0),
    Scaling(kind="llama3", factor=8.0, original=64, low=1.0, high=4.0),
    Scaling(kind="yarn", factor=4.0, original=64, low=1.0, high=32.0),
    Scaling(kind="yarn", factor=2.0, original=16, low=2.0, high=16.0, attention_factor=1.5),
)


class Theirs:
    """What transformers makes of a file, and how it writes one."""

    def __init__(self, folder):
        self.models = pytest.importorskip("gnomon.impl.adapters.transformers_models")
        self.folder = folder

    def family(self, name):
        return getattr(self.models, name)

    def written(self, name, c) -> Given:
        """The file of a configuration."""
        self.family(name).configured(c).save_pretrained(self.folder)
        return json.loads((self.folder / "config.json").read_text())

    def read(self, given: Given) -> Configuration:
        """Our configuration of a file, by the adapter; a pooler is there where the family has one."""
        import transformers

        (self.folder / "config.json").write_text(json.dumps(given))
        hugging = transformers.AutoConfig.from_pretrained(self.folder, local_files_only=True)
        family = self.models.family_of(hugging)
        return replace(family.configuration_of(hugging), pooler=family.pools)


@pytest.fixture
def theirs(tmp_path):
    return Theirs(tmp_path)


def members(family):
    """Small members of the family, of several shapes."""
    for kv_heads, widened, window, base in ((4, 0, 0, 10000.0), (2, 8, 3, 500.0), (1, 4, 1, 1e6)):
        c = member(family, kv_heads=kv_heads, widened=widened, window=window, base=base, **SIZES)
        yield replace(c, feed_forward=4 * c.width) if family == "bloom" else c


@pytest.mark.parametrize("name", OUR_NAMES)
def test_files_are_read_as_transformers_reads_them(name, theirs):
    compared = 0
    for c in members(OUR_NAMES[name]):
        try:
            given = theirs.written(name, c)
        except NotImplementedError:
            continue
        read, compared = configuration_of(given), compared + 1
        assert read == theirs.read(given)
        same = replace(c, pooler=read.pooler, epsilon=read.epsilon if name == "opt" else c.epsilon)  # files have none
        assert theirs.models.settled(read) == theirs.models.settled(same)
    assert compared


def read_or_told(read, given: Given) -> Configuration | str:
    """The configuration, or what was said instead."""
    try:
        return read(given)
    except Exception as error:
        return str(error)


@pytest.mark.parametrize("name", OUR_NAMES)
def test_a_key_that_is_missing_or_null_is_what_transformers_takes(name, theirs):
    """Or it is asked for, which transformers does not: a default size says nothing about a model and may not fit it."""
    given = theirs.written(name, next(members(OUR_NAMES[name])))
    for key in given.keys() - {"model_type"}:
        for changed in ({k: v for k, v in given.items() if k != key}, given | {key: None}):
            read, expected = read_or_told(configuration_of, changed), read_or_told(theirs.read, changed)
            told = (f"lacks '{key}'", f"says that {key} is None", "has 8 key", "has 16 key", "has 32 key")
            asked = isinstance(read, str) and read.startswith(told)
            assert asked or read == expected or isinstance(expected, str), key


def old_form(given: Given) -> Given:
    """The file as it was written before rope_parameters."""
    own = dict(given["rope_parameters"])
    kind, base, share = own.pop("rope_type"), own.pop("rope_theta"), own.pop("partial_rotary_factor", None)
    plain = {k: v for k, v in given.items() if k != "rope_parameters"}
    neox = given["model_type"] == "gpt_neox"
    top = {"rotary_emb_base" if neox else "rope_theta": base}
    top |= {} if share is None else {"rotary_pct" if neox else "partial_rotary_factor": share}
    return plain | top | {"rope_scaling": None if kind == "default" else {"type": kind, **own}}


@pytest.mark.parametrize("scaling", [None, *SCALINGS], ids=lambda s: s and s.kind)
@pytest.mark.parametrize("name", [n for n, ours in OUR_NAMES.items() if ours in ROTARY and n != "gptj"])
def test_rotary_positions_are_read_in_the_old_form_and_the_new(name, scaling, theirs):
    c = next(members(OUR_NAMES[name]))
    c = replace(c, rotary=replace(c.rotary, scaling=scaling))
    try:
        given = theirs.written(name, c)
    except NotImplementedError:
        assert name == "phi3"
        assert scaling is not None
        return
    old = old_form(given)
    assert configuration_of(given) == configuration_of(old) == theirs.read(given) == theirs.read(old)
    assert configuration_of(given).rotary.scaling == scaling


CHANGES = {
    "llama": [{"attention_bias": True}, {"mlp_bias": True}, {"tie_word_embeddings": True}, {"hidden_act": "gelu_new"}],
    "qwen2": [
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 0, "layer_types": None},
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 9, "layer_types": None},
        {"use_sliding_window": True, "sliding_window": 5, "layer_types": ["sliding_attention", "full_attention"]},
        {"head_dim": 8},
    ],
    "gemma": [{"hidden_act": "gelu"}, {"hidden_act": "silu"}],
    "gemma2": [{"layer_types": None, "sliding_window": 7}, {"attn_logit_softcapping": None}],
    "cohere": [{"logit_scale": 0.5}, {"attention_bias": True}],
    "falcon": [
        {"parallel_attn": False}, {"bias": True}, {"multi_query": False}, {"ffn_hidden_size": 9},
        {"new_decoder_architecture": True, "num_kv_heads": 2}, {"num_ln_in_parallel_attn": 2},
        {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
    ],
    "gpt2": [{"n_inner": None}, {"n_positions": 9}, {"activation_function": "relu"}],
    "gpt_neox": [{"use_parallel_residual": False}, {"attention_bias": False}, {"hidden_act": "gelu_fast"}],
    "gptj": [{"rotary_dim": 2}],
    "opt": [{"enable_bias": False}, {"max_position_embeddings": 5}],
    "bloom": [{"n_inner": 5}],
    "bert": [{"type_vocab_size": 3}],
}  # fmt: skip


@pytest.mark.parametrize("name", CHANGES)
def test_what_a_family_may_change_is_read_as_transformers_reads_it(name, theirs):
    given = theirs.written(name, next(members(OUR_NAMES[name])))
    for change in CHANGES[name]:
        assert configuration_of(given | change) == theirs.read(given | change), change


def test_a_file_of_bloom_as_released_is_read():
    """Its width is called otherwise than transformers calls it since, and two other keys are theirs."""
    given = {"model_type": "bloom", "n_embed": 64, "n_layer": 2, "num_attention_heads": 8, "vocab_size": 9,
             "n_inner": None}  # fmt: skip
    c = configuration_of(given)
    assert (c.width, c.layers, c.heads, c.feed_forward) == (64, 2, 8, 256)


# One sentence.

LLAMA = RELEASED["llama-3-8b"]
ROPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
SENTENCES = [
    ([], "is of the family None; known are bert, bloom, cohere"),
    ({"model_type": "mamba"}, "is of the family 'mamba'; known are bert"),
    ({"model_type": ["llama"]}, "is of the family ['llama']; known are"),
    ({"model_type": "llama"}, "lacks 'hidden_size', which llama needs"),
    ({"model_type": "gpt2"}, "lacks 'n_embd', which gpt2 needs"),
    (LLAMA | {"hidden_size": "wide"}, "says that hidden_size is 'wide', which is no whole number above zero"),
    (LLAMA | {"hidden_size": 4096.0}, "says that hidden_size is 4096.0, which is no whole number above zero"),
    (LLAMA | {"num_hidden_layers": 0}, "says that num_hidden_layers is 0, which is no whole number above zero"),
    (LLAMA | {"vocab_size": None}, "says that vocab_size is None, which is no whole number above zero"),
    (LLAMA | {"intermediate_size": None}, "says that intermediate_size is None, which is no whole number above zero"),
    (LLAMA | {"rms_norm_eps": "1e-5"}, "says that rms_norm_eps is '1e-5', which is no number above zero"),
    (LLAMA | {"rms_norm_eps": 10**400}, "which is no number above zero"),
    (LLAMA | {"tie_word_embeddings": 1}, "says that tie_word_embeddings is 1, which is no true or false"),
    (LLAMA | {"hidden_act": "tanh"}, "says that hidden_act is 'tanh', which no configuration here can say"),
    (LLAMA | {"num_attention_heads": 3}, "has 3 heads, which do not divide the width of 4096"),
    (LLAMA | {"num_key_value_heads": 5}, "has 5 key-value heads, which do not divide its 32 heads"),
    (LLAMA | {"rope_scaling": [1]}, "says that rope_parameters is [1], which is no JSON object"),
    (LLAMA | {"rope_theta": None}, "says that rope_theta is None, which is no number above zero"),
    (LLAMA | {"rope_scaling": {"type": "su"}}, "says that rope_type is 'su', which no configuration here can say"),
    (LLAMA | {"rope_scaling": {"type": "linear"}}, "lacks 'factor', which llama needs"),
    (LLAMA | {"rope_scaling": ROPE}, "lacks 'max_position_embeddings', which llama needs"),
    (LLAMA | {"rope_scaling": ROPE | {"mscale": 1.0}}, "says that mscale of rope_type llama3 is 1.0, which no"),
    (LLAMA | {"rope_parameters": {"full_attention": {}, "rope_type": "yarn"}}, "says that full_attention of rope_type"),
    (LLAMA | {"rope_parameters": {"partial_rotary_factor": 0.5}}, "has 64 of the 128 features of a head rotated"),
    (RELEASED["phi-2"] | {"partial_rotary_factor": 0.01}, "has 0 of the 80 features of a head rotated"),
    (RELEASED["phi-2"] | {"qk_layernorm": True}, "says that qk_layernorm is True, which no configuration here can say"),
    (RELEASED["phi-3-mini"] | {"rope_scaling": {"type": "linear", "factor": 2.0}}, "says that rope_type is 'linear'"),
    (RELEASED["command-r"] | {"use_qk_norm": True}, "says that use_qk_norm is True, which no configuration here can"),
    (RELEASED["falcon-7b"] | {"alibi": True}, "says that alibi is True, which no configuration here can say"),
    (RELEASED["falcon-7b"] | {"num_ln_in_parallel_attn": 3}, "says that num_ln_in_parallel_attn is 3, which no"),
    (RELEASED["bert-base-uncased"] | {"position_embedding_type": "relative_key"}, "is 'relative_key', which no"),
    (
        RELEASED["qwen2-7b"] | {"use_sliding_window": True, "max_window_layers": 21},
        "has windows elsewhere than in every",
    ),
    (
        RELEASED["qwen2-7b"] | {"use_sliding_window": True, "max_window_layers": -1},
        "is no whole number of zero or more",
    ),
    (RELEASED["qwen2-7b"] | {"layer_types": [[]] * 28}, "which is no list of 28 words for full or sliding attention"),
]


@pytest.mark.parametrize(("given", "sentence"), SENTENCES, ids=lambda value: value if isinstance(value, str) else "")
def test_a_wrong_file_gets_one_sentence(given, sentence, tmp_path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(given))
    with pytest.raises(BadConfiguration) as raised:
        read_configuration(tmp_path)
    assert str(raised.value).startswith(f"{file} ")
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("text", "sentence"), [("{", "is not a JSON file"), ("\udcff", "is not a JSON file")])
def test_what_is_no_file_of_json_gets_one_sentence(text, sentence, tmp_path):
    (tmp_path / "config.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(BadConfiguration, match=sentence):
        read_configuration(tmp_path)
    with pytest.raises(BadConfiguration, match="there is no"):
        read_configuration(tmp_path / "nowhere")
