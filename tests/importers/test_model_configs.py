"""Built-in shapes and uploaded config.json files."""

import json

import pytest

from importers.model_configs import MAX_BYTES, builtin_configs, read_upload
from models.architecture import read_config
from models.errors import UnreadableFile


def test_builtin_shapes_are_there_and_readable():
    configs = builtin_configs()
    assert {"qwen2.5-1.5b", "llama-3.1-70b", "tiny-test-shape"} <= set(configs)
    assert read_config(configs["qwen2.5-1.5b"]).hidden == 1536


def test_an_upload_is_decoded():
    config = builtin_configs()["qwen2.5-14b"]
    assert read_upload(b"\xef\xbb\xbf" + json.dumps(config).encode()) == config


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"\xff\xfe\x00", "not text"),
        (b"[1]", "object"),
        (b'{"a": NaN}', "not JSON"),
        (b" " * (MAX_BYTES + 1), "MB"),
        (b'{"a":' * 40 + b"1" + b"}" * 40, "deeply"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deeply"),
    ],
)
def test_anything_else_is_refused_with_a_sentence(data, word):
    with pytest.raises(UnreadableFile, match=word) as caught:
        read_upload(data)
    assert caught.value.next_step
