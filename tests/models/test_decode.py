"""Bytes, operations and memory of a decode step, against hand-worked counts."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.architecture import parameter_count, read_config
from models.decode import (
    check_decode,
    check_memory,
    floor_ms,
    kv_heads_a_rank,
    memory_need,
    memory_words,
    step_cost,
)
from models.errors import InvalidSpec, OutOfMemory

SMALL = {
    "model_type": "qwen2",
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
}
TINY = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 10,
    "max_position_embeddings": 64,
    "tie_word_embeddings": False,
}


def test_one_gpu_reads_every_weight_of_a_tied_model_once():
    arch = read_config(SMALL)
    cost = step_cost(arch, 1, 1, 1024)
    assert cost.weight_bytes == 2 * parameter_count(arch)
    assert (
        cost.kv_bytes == 1024 * 28 * 2 * 2 * 128 * 2
    )  # positions, layers, k and v, heads, head, bf16
    assert cost.calls == 0
    assert cost.bytes_read == cost.weight_bytes + cost.kv_bytes


def test_an_untied_embedding_is_held_but_not_read():
    arch = read_config(TINY)
    cost = step_cost(arch, 1, 1, 4)
    assert cost.weight_bytes == 2 * (parameter_count(arch) - 10 * 8)
    need = memory_need(arch, 1, 1, 4, device="cpu")
    assert need.weights == cost.weight_bytes + 2 * 10 * 8


def test_a_hand_worked_tiny_step():
    # layer: qkv 8*(8+8) + o 8*8 + mlp 3*8*16 + norms 16 = 592; twice, + norm 8
    # + head 80 = 1272 weights; cache 2*2*3*4*2*2 = 192 elements of 2 bytes
    arch = read_config(TINY)
    cost = step_cost(arch, 1, 3, 4)
    assert cost.weight_bytes == 2 * 1272
    assert cost.kv_bytes == 2 * 192
    assert cost.flops == 2 * 3 * 1272 + 4 * 2 * 3 * 4 * 4 * 2


def test_a_rank_holds_its_share_and_the_norms():
    # the qkv, o, mlp and head halve (vocabulary 10 over 2 is 5), the norms do not
    arch = read_config(TINY)
    cost = step_cost(arch, 2, 1, 4)
    assert cost.weight_bytes == 2 * (2 * ((128 + 64 + 384) // 2 + 16) + 8 + 40)
    assert cost.calls == 5
    assert step_cost(arch, 4, 1, 4).kv_bytes == step_cost(arch, 2, 1, 4).kv_bytes  # repeated heads
    assert kv_heads_a_rank(arch, 4) == 1


def test_the_floor_of_a_small_model_on_a_measured_bandwidth():
    # 3.09 GB at 4,300 GB/s
    cost = step_cost(read_config(SMALL), 1, 1, 1024)
    assert floor_ms(cost, 4300) == pytest.approx(0.725, abs=0.005)
    assert floor_ms(cost, 4300, 1e-3) == pytest.approx(cost.flops / 1e6)
    with pytest.raises(InvalidSpec):
        floor_ms(cost, 0)


@pytest.mark.parametrize(("kv_len", "positions"), [(1024, 2048), (1000, 2032), (1, 1024)])
def test_a_paged_cache_beside_the_own_needs_room_for_the_longest_sequences(kv_len, positions):
    alone, paged = (
        memory_need(read_config(SMALL), 1, 8, kv_len, paged=paged) for paged in (False, True)
    )
    assert paged.kv_cache * kv_len == alone.kv_cache * (kv_len + positions)
    assert paged.total - alone.total == paged.kv_cache - alone.kv_cache


def test_memory_is_refused_with_its_sum():
    need = memory_need(read_config(SMALL), 1, 8, 1024)
    check_memory(need, 80e9, "GPU 0")
    with pytest.raises(OutOfMemory) as refused:
        check_memory(need, 4e9, "GPU 0")
    assert "GPU 0 has 4.0 GB free" in refused.value.sentence
    assert "3.1 GB weights" in refused.value.sentence
    assert need.total == need.weights + need.kv_cache + need.activations + need.reserve


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "gpt2"}, "without a gate"),
        ({"model_type": "gemma"}, "family 'gemma'"),
        ({"num_local_experts": 8, "num_experts_per_tok": 2, "model_type": "mixtral"}, "experts"),
        ({"quantization_config": {"quant_method": "awq", "bits": 4}}, "quantised"),
        ({"head_dim": 7}, "rotated in pairs"),
        ({"sliding_window": 32, "model_type": "mistral"}, "looks back 32"),
    ],
)
def test_what_is_no_plain_decoder_is_refused_by_name(change, words):
    with pytest.raises(InvalidSpec, match=words):
        check_decode(read_config(TINY | change), 1, 64)


@pytest.mark.parametrize(
    ("tp", "kv_len", "batch", "words"),
    [
        (3, 8, 1, "heads do not divide"),
        (1, 65, 1, "longer than the model's 64"),
        (1, 8, 0, "at least one sequence"),
        (1, 0, 1, "at least one sequence"),
    ],
)
def test_a_step_that_cannot_exist_is_refused(tp, kv_len, batch, words):
    with pytest.raises(InvalidSpec, match=words):
        check_decode(read_config(TINY), tp, kv_len, batch)


@pytest.mark.parametrize(
    ("n_bytes", "words"), [(141e9, "141 GB"), (21.04e9, "21.0 GB"), (3.2e7, "32 MB")]
)
def test_memory_reads_as_a_person_writes_it(n_bytes, words):
    assert memory_words(n_bytes) == words


@given(st.sampled_from([1, 2, 4]), st.integers(1, 64), st.integers(1, 64))
def test_more_gpus_never_read_more_each(tp, batch, kv_len):
    arch = read_config(TINY)
    assert (
        step_cost(arch, tp, batch, kv_len).bytes_read
        <= step_cost(arch, 1, batch, kv_len).bytes_read
    )


def test_the_built_in_shapes_are_plain_decoders():
    paths = sorted((Path(__file__).parents[2] / "data" / "models").glob("*.json"))
    assert paths
    for path in paths:
        check_decode(read_config(json.loads(path.read_text())), 1, 1024)
