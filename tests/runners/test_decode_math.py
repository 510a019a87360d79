"""The decoder computes what the public implementation computes, and its shards add up to it."""

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import get_args

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from models.architecture import read_config
from models.numerics import ACTIVATIONS, read_numerics
from runners.decode_step import Model, NoCollectives, Step
from runners.decoder import _ACTIVATIONS, PLAIN, fused
from runners.decoder_weights import build_shard, random_source, state_source
from runners.spec import DecodeSpec

SIZES = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "vocab_size": 101,
    "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "rope_theta": 10_000.0,
}
SCALED = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}
QWEN2 = {"model_type": "qwen2", "tie_word_embeddings": True, **SIZES}
LLAMA = {"model_type": "llama", "tie_word_embeddings": False, "rope_scaling": SCALED, **SIZES}
QWEN3 = {"model_type": "qwen3", "tie_word_embeddings": False, "head_dim": 16, **SIZES}
MISTRAL = {"model_type": "mistral", "tie_word_embeddings": False, "sliding_window": None, **SIZES}

BATCH, TOKENS = 2, 7


def next_step(previous, model, kv_len, tokens):
    """A step one position later, with the cache of the previous one."""
    step = Step(model, BATCH, kv_len)
    if previous is not None:
        for new, old in zip(step.keys + step.values, previous.keys + previous.values, strict=True):
            new[:, : kv_len - 1] = old
    step.tokens.copy_(tokens)
    return step


@pytest.mark.parametrize("config", [QWEN2, LLAMA, QWEN3, MISTRAL], ids=lambda c: c["model_type"])
def test_one_rank_equals_the_public_implementation(config):
    torch.manual_seed(0)
    settings = {name: value for name, value in config.items() if name != "model_type"}
    theirs = AutoModelForCausalLM.from_config(
        AutoConfig.for_model(config["model_type"], **settings), attn_implementation="eager"
    )
    theirs = theirs.float().eval()
    with torch.no_grad():
        for weight in theirs.parameters():
            weight.copy_(torch.randn_like(weight) * 0.3)
        tokens = torch.randint(0, config["vocab_size"], (BATCH, TOKENS))
        expected = theirs(tokens).logits
        arch = read_config(config)
        shard = build_shard(arch, state_source(theirs.state_dict()), 1, 0)
        model = Model(arch, read_numerics(config, arch), shard, 1)
        step = None
        for place in range(TOKENS):
            step = next_step(step, model, place + 1, tokens[:, place])
            logits = step.logits(PLAIN, NoCollectives())
            torch.testing.assert_close(logits, expected[:, place], atol=1e-4, rtol=0)
        step.choose(logits, PLAIN, NoCollectives())
        assert step.tokens.tolist() == expected[:, -1].argmax(-1).tolist()


class Meeting:
    """All-reduce and all-gather between threads, one a rank."""

    def __init__(self, n_ranks):
        self.n_reductions = 0
        self._parts = [None] * n_ranks
        self._barrier = threading.Barrier(n_ranks, timeout=30)

    def seat(self, rank):
        return Seat(self, rank)

    def collect(self, rank, part):
        self._parts[rank] = part.clone()
        self._barrier.wait()
        parts = torch.stack(self._parts)
        self._barrier.wait()
        return parts


class Seat:
    def __init__(self, meeting, rank):
        self._meeting, self._rank = meeting, rank

    def reduce(self, partial):
        if self._rank == 0:
            self._meeting.n_reductions += 1
        return self._meeting.collect(self._rank, partial).sum(0)

    def gather(self, best):
        return self._meeting.collect(self._rank, best)


def in_shards(arch, config, tp, dtype):
    """Logits of all vocabulary rows (B, vocab), next tokens, and how often the ranks reduced."""
    source = random_source(torch.device("cpu"), dtype, seed=1)
    if arch.qkv_bias:
        assert source("model.layers.0.self_attn.q_proj.bias", (8,)).abs().sum() > 0
    meeting = Meeting(tp)
    whole = Step(model_of(arch, config, 1, 0, source), BATCH, 9)

    def rank(number):
        with torch.no_grad():
            step = Step(model_of(arch, config, tp, number, source), BATCH, 9)
            mine = number * whole.keys[0].shape[2] // tp
            held = step.keys[0].shape[2]
            pairs = zip(step.keys + step.values, whole.keys + whole.values, strict=True)
            for own, full in pairs:
                own.copy_(full[:, :, mine : mine + held])
            step.tokens.fill_(3)
            seat = meeting.seat(number) if tp > 1 else NoCollectives()
            logits = step.logits(PLAIN, seat)
            step.choose(logits, PLAIN, seat)
            return logits[:, : step.model.shard.valid_rows], step.tokens.tolist()

    with ThreadPoolExecutor(tp) as pool:
        answers = list(pool.map(rank, range(tp)))
    tokens = [chosen for _, chosen in answers]
    assert all(chosen == tokens[0] for chosen in tokens)
    return torch.cat([part for part, _ in answers], -1), tokens[0], meeting.n_reductions


def model_of(arch, config, tp, rank, source):
    return Model(arch, read_numerics(config, arch), build_shard(arch, source, tp, rank), tp)


@pytest.mark.parametrize("config", [QWEN2, LLAMA, QWEN3], ids=lambda c: c["model_type"])
@pytest.mark.parametrize(
    ("tp", "dtype", "tolerance"),
    [
        (2, torch.float32, 1e-5),
        (2, torch.bfloat16, 3e-2),
        (4, torch.float32, 1e-5),  # more ranks than key-value heads: heads are repeated
        (8, torch.float32, 1e-5),
    ],
)
def test_shards_add_up_to_one_rank(config, tp, dtype, tolerance):
    arch = read_config(config)
    alone, token, none = in_shards(arch, config, 1, dtype)
    together, same, reductions = in_shards(arch, config, tp, dtype)
    assert alone.shape == (BATCH, config["vocab_size"])  # 101 rows over 2, 4, 8: padding cut off
    distance = (together - alone).float().norm() / alone.float().norm()
    assert distance < tolerance
    assert none == 0
    assert reductions == 2 * arch.layers + 1
    if dtype is torch.float32:
        assert token == same


def test_a_shard_holds_its_share_only():
    arch = read_config(QWEN2)
    source = random_source(torch.device("cpu"), torch.float32)
    whole, part = build_shard(arch, source, 1, 0), build_shard(arch, source, 2, 1)
    assert part.layers[0].down.shape == (64, 48)
    assert torch.equal(part.layers[0].down, whole.layers[0].down[:, 48:])
    # its memory is its own: the whole tensor is let go
    assert part.layers[0].down.untyped_storage().nbytes() == 64 * 48 * 4
    assert part.first_row == 51
    assert part.valid_rows == 50
    assert part.head is part.embedding


def test_slots_go_round_and_positions_stay_inside_the_model():
    arch = read_config(QWEN2 | {"max_position_embeddings": 12})
    source = random_source(torch.device("cpu"), torch.float32)
    step = Step(model_of(arch, QWEN2, 1, 0, source), 1, 9)
    assert [step.position(number) for number in range(6)] == [8, 9, 10, 11, 8, 9]
    with torch.no_grad():
        before = step.keys[0].clone()
        step.positions.fill_(9)
        step.logits(PLAIN, NoCollectives())
    changed = [slot for slot in range(9) if not torch.equal(step.keys[0][:, slot], before[:, slot])]
    assert changed == [0]


def test_compiled_blocks_agree_with_plain_ones():
    arch = read_config(QWEN2)
    source = random_source(torch.device("cpu"), torch.float32)
    step = Step(model_of(arch, QWEN2, 1, 0, source), BATCH, 9)
    seen = []

    def note(graph, example_inputs):
        seen.append(graph)
        return graph.forward

    attention = torch.compile(PLAIN.attention, backend=note, fullgraph=True, dynamic=False)
    blocks = type(PLAIN)(**{**vars(PLAIN), "attention": attention})
    with torch.no_grad():
        plain = step.logits(PLAIN, NoCollectives())
        torch.testing.assert_close(step.logits(blocks, NoCollectives()), plain)
    assert len(seen) == 1  # one graph serves all layers, with no break in it
    torch.compiler.reset()


@pytest.mark.parametrize("mode", get_args(DecodeSpec.model_fields["fusion"].annotation))
def test_every_fusion_of_a_spec_is_known_to_torch(mode):
    assert callable(fused(mode).attention)  # an option that torch does not know raises here


def test_every_activation_that_is_let_in_is_built():
    assert set(_ACTIVATIONS) == set(ACTIVATIONS)
