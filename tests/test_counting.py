"""`gnomon count`: published totals, local files, the 2017 table with its misfit, and one sentence for wrong input."""

import json

import pytest
from click.testing import CliRunner

from gnomon.props.command import main
from gnomon.spec.configuration import CONFIGURATIONS
from gnomon.spec.memory import cache_bytes, cache_crossing_length, crossing_length, score_bytes
from gnomon.spec.parameters import PUBLISHED, SIZES_OF_2017, encoder_decoder_weights, parameter_count

LLAMA = {
    "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 32,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
}  # fmt: skip
FILES = {
    "llama-3-8b": LLAMA,
    "mistral-7b": LLAMA | {"model_type": "mistral", "vocab_size": 32000},
    "gpt2": {
        "model_type": "gpt2", "vocab_size": 50257, "n_embd": 768, "n_layer": 12, "n_head": 12, "n_positions": 1024,
    },
    "qwen2-0.5b": {
        "model_type": "qwen2", "vocab_size": 151936, "hidden_size": 896, "num_hidden_layers": 24,
        "num_attention_heads": 14, "num_key_value_heads": 2, "intermediate_size": 4864, "tie_word_embeddings": True,
    },
    "gemma-2b": {
        "model_type": "gemma", "vocab_size": 256000, "hidden_size": 2048, "num_hidden_layers": 18,
        "num_attention_heads": 8, "num_key_value_heads": 1, "head_dim": 256, "intermediate_size": 16384,
    },
    "pythia-160m": {
        "model_type": "gpt_neox", "vocab_size": 50304, "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072,
    },
    "phi-2": {
        "model_type": "phi", "vocab_size": 51200, "hidden_size": 2560, "num_hidden_layers": 32,
        "num_attention_heads": 32, "intermediate_size": 10240,
    },
    "bert-base-uncased": {
        "model_type": "bert", "vocab_size": 30522, "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072, "max_position_embeddings": 512, "type_vocab_size": 2,
    },
}  # fmt: skip


def count(*arguments):
    return CliRunner().invoke(main, ["count", *map(str, arguments)])


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_total_is_printed(name):
    told = json.loads(count(name, "--json").stdout)
    assert told["parameters"] == PUBLISHED[name]
    parts = [n for label, n in told.items() if label.startswith(("embedding", "attention", "feed", "norms", "final"))]
    assert sum(parts) == PUBLISHED[name]


def test_the_model_of_2017_is_the_row_with_biases_and_norms():
    """Written out: in 6 + 6 blocks biases of a network; 2 norms in each of an encoder, 3 in each of a decoder."""
    base, c = SIZES_OF_2017[0], CONFIGURATIONS["2017"]
    more = 12 * (2048 + 512) + 6 * (2 + 3) * 2 * 512
    assert parameter_count(c) == encoder_decoder_weights(base, c.vocabulary) + more
    told = json.loads(count("2017", "--json").stdout)
    assert told["attention of all blocks"] == 18 * 4 * 512**2
    assert told["bytes of cache a token"] == 2 * (6 + 6) * 512 * 2


@pytest.mark.parametrize("name", FILES)
def test_a_local_file_gives_the_named_configuration(name, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(FILES[name]))
    for place in (tmp_path, tmp_path / "config.json"):
        assert json.loads(count(place, "--json").stdout)["parameters"] == PUBLISHED[name]


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_crossing_is_the_first_length_past_the_weights(name):
    c, bytes_of_weights = CONFIGURATIONS[name], 2 * parameter_count(CONFIGURATIONS[name])
    for taken, first in ((score_bytes, crossing_length(c, batch=3)), (cache_bytes, cache_crossing_length(c, batch=3))):
        assert taken(c, first, batch=3) > bytes_of_weights >= taken(c, first - 1, batch=3)


def test_the_table_of_2017_is_printed_with_its_misfit():
    said = count("2017").stdout
    assert f"{parameter_count(CONFIGURATIONS['2017']):,}" in said
    for row in SIZES_OF_2017:
        assert f"{encoder_decoder_weights(row, 37000) / 10**6:.1f}" in said
    assert "No single vocabulary fits: the rows imply from 35976 to 42076." in said


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not a JSON file"),
        ("[]", "is of the family None; known are bert"),
        ('{"model_type": "mamba"}', "is of the family 'mamba'; known are bert"),
        ('{"model_type": "llama"}', "lacks 'hidden_size', which llama needs"),
        (json.dumps(LLAMA | {"hidden_size": "wide"}), "hidden_size is 'wide'"),
        (json.dumps(LLAMA | {"num_hidden_layers": 0}), "num_hidden_layers is 0"),
    ],
)
def test_a_wrong_file_gets_one_sentence(text, sentence, tmp_path):
    (tmp_path / "config.json").write_text(text)
    ran = count(tmp_path / "config.json")
    assert ran.exit_code == 2
    assert sentence in " ".join(ran.output.split())
    assert "Traceback" not in ran.output


def test_a_wrong_name_gets_the_nearest():
    assert "there is no configuration llama-3-8B: did you mean llama-3-8b?" in count("llama-3-8B").output
    assert count("nosuch").exit_code == count("./nosuch/config.json").exit_code == 2
