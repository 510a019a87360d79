"""A step as an engine drives it: the books of a paged cache, the tokens of a whole step."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.architecture import read_config
from runners.decode_clocks import DISCARDED, WallLoop
from runners.decode_served import PAGE, Pages, ServedLoop
from runners.decode_step import Model, NoCollectives, Step
from runners.decoder import PLAIN, read_numerics
from runners.decoder_weights import build_shard, random_source

MODEL = {
    "model_type": "qwen2",
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 53,
    "max_position_embeddings": 40,
    "tie_word_embeddings": True,
}
ALONE = NoCollectives()
# positions end at 40, so a sequence of 30 has 11 steps before it starts again
KV_LEN, SPAN = 30, 11


def new_step(batch=2):
    arch = read_config(MODEL)
    source = random_source(torch.device("cpu"), torch.float32)
    model = Model(arch, read_numerics(MODEL, arch), build_shard(arch, source, 1, 0), 1)
    return Step(model, batch, KV_LEN)


def served(step, work=None):
    hidden = torch.empty(step.batch, MODEL["hidden_size"])

    def layers():
        if work:
            work()
        hidden.copy_(step.hidden(PLAIN, ALONE))

    return ServedLoop(step, layers, hidden, ALONE)


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("n_steps", [1, 8, 2 * SPAN])
def test_it_writes_the_same_tokens_as_a_whole_step(n_steps):
    whole, parts = new_step(), new_step()
    WallLoop(whole, lambda: whole.run(PLAIN, ALONE))(n_steps)
    times = served(parts)(n_steps)
    assert len(times) == n_steps
    assert min(times) > 0
    assert torch.equal(parts.tokens, whole.tokens)
    assert torch.equal(parts.positions, whole.positions)


def test_positions_go_round_as_in_the_other_loops():
    step = new_step()
    seen = []
    served(step, lambda: seen.append(int(step.positions[1])))(2 * SPAN)
    assert seen == [step.position(number) for number in range(2 * SPAN + DISCARDED)]


def test_each_position_of_each_sequence_has_a_place_of_its_own():
    step = new_step(batch=3)
    places, loop = [], served(step)

    def one():
        loop._one([[], [], []])
        places.extend(loop.slots.tolist())

    for _ in range(SPAN):
        one()
    assert len(set(places)) == 3 * SPAN
    assert loop.lengths.tolist() == [KV_LEN + SPAN - 1] * 3


@given(lengths=st.lists(st.integers(1, 100), min_size=1, max_size=30), batch=st.integers(1, 4))
def test_no_two_sequences_share_a_page(lengths, batch):
    pages = Pages(batch, 100)
    for length in lengths:
        held = [list(pages.grow(sequence, length)) for sequence in range(batch)]
        everyone = [page for own in held for page in own]
        assert len(set(everyone)) == len(everyone)
        assert all(len(own) * PAGE >= length for own in held)
        assert max(everyone) < batch * pages.width


def test_pages_of_a_sequence_that_ended_are_given_out_again():
    pages = Pages(1, PAGE)
    first = list(pages.grow(0, PAGE))
    pages.release(0)
    assert list(pages.grow(0, 1)) == first
