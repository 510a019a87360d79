"""A step as an engine drives it: the books of a paged cache, the tokens of a whole step."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.architecture import read_config
from models.decode import PAGE
from models.numerics import read_numerics
from runners.decode_clocks import DISCARDED, WallLoop
from runners.decode_served import Books, ServedLoop, longest, pages_of
from runners.decode_step import Model, NoCollectives, Step
from runners.decoder import PLAIN
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
    pages = pages_of(step)

    def layers():
        if work:
            work(pages)
        hidden.copy_(step.hidden(PLAIN, ALONE, pages))

    return ServedLoop(step, layers, hidden, pages, ALONE)


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
    served(step, lambda pages: seen.append(int(step.positions[1])))(2 * SPAN)
    assert seen == [step.position(number) for number in range(2 * SPAN + DISCARDED)]


def test_each_position_of_each_sequence_has_a_place_of_its_own():
    step = new_step(batch=3)
    places = []
    loop = served(step, lambda pages: places.extend(pages.places.tolist()))
    for _ in range(SPAN):
        loop._one([[], [], []])
    assert len(set(places)) == 3 * SPAN
    assert loop.lengths.tolist() == [KV_LEN + SPAN - 1] * 3


def test_the_pages_hold_what_the_cache_holds():
    step = new_step(batch=3)
    seen = []
    loop = served(step, lambda pages: seen.append((pages, pages.places.clone())))
    for number in range(SPAN):
        loop._one([[], [], []])
        pages, places = seen[-1]
        slot = step.position(number) % KV_LEN
        for layer in range(MODEL["num_hidden_layers"]):
            assert torch.equal(pages.keys[layer][places], step.keys[layer][:, slot])
            assert torch.equal(pages.values[layer][places], step.values[layer][:, slot])
    # all of them are there still: no position lies over another
    pages = seen[0][0]
    held = torch.cat([places for _, places in seen])
    written = [step.position(number) % KV_LEN for number in range(SPAN)]
    expected = torch.cat([step.keys[0][:, slot] for slot in written])
    assert torch.equal(pages.keys[0][held], expected)
    others = torch.ones(len(pages.keys[0]), dtype=torch.bool)
    others[held] = False
    assert not pages.keys[0][others].any()


def test_the_paged_cache_has_room_for_the_longest_sequences_of_all():
    step = new_step(batch=3)
    pages = pages_of(step)
    assert longest(step) == MODEL["max_position_embeddings"]
    assert pages.keys[0].shape == (3 * 3 * PAGE, 2, 8)  # 40 positions: three pages of 16


@given(lengths=st.lists(st.integers(1, 100), min_size=1, max_size=30), batch=st.integers(1, 4))
def test_no_two_sequences_share_a_page(lengths, batch):
    pages = Books(batch, 100)
    for length in lengths:
        held = [list(pages.grow(sequence, length)) for sequence in range(batch)]
        everyone = [page for own in held for page in own]
        assert len(set(everyone)) == len(everyone)
        assert all(len(own) * PAGE >= length for own in held)
        assert max(everyone) < batch * pages.width


def test_pages_of_a_sequence_that_ended_are_given_out_again():
    pages = Books(1, PAGE)
    first = list(pages.grow(0, PAGE))
    pages.release(0)
    assert list(pages.grow(0, 1)) == first
