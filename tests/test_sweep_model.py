"""The model against the formulas of its papers, written out in numpy, and what must hold of any decoder."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import between

from ebfit.sweep.architecture import Architecture
from ebfit.sweep.model import Attention, Model, RMSNorm, rotary_tables, rotate

SEQ_LEN = 12
GROUPED = Architecture(n_layer=2, d_model=32, n_head=4, n_kv_head=2, d_ff=40, vocab_size=50, qk_norm=True)
PLAIN = Architecture(n_layer=2, d_model=24, n_head=3, n_kv_head=3, d_ff=40, vocab_size=50, rope_theta=500.0)


def _tokens(sizes: Architecture, batch: int, length: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(sizes.vocab_size, (batch, length), generator=generator)


def _model(sizes: Architecture, seed: int = 0) -> Model:
    """A model as training starts with it."""
    model = Model(sizes, SEQ_LEN)
    model.initialise(seed)
    return model


def _lively_model(sizes: Architecture, seed: int = 0) -> Model:
    """A model in which nothing is small or 1: attention is sharp, gains differ, logits are a few units large."""
    generator = torch.Generator().manual_seed(seed)
    model = _model(sizes, seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.uniform_(0.5, 1.5, generator=generator)
            elif name == "embedding.weight":
                parameter.normal_(0.0, 0.5, generator=generator)
    return model


# --- the whole model, from the formulas ----------------------------------------------------------------------


def _rms_norm(x, gain):
    """arXiv 1910.07467: x / RMS(x) * gain."""
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + 1e-6) * gain


def _rotary(x, theta):
    """arXiv 2104.09864: pair k of the head as a complex number, turned by position * theta^(-2k/d)."""
    length, width = x.shape
    frequency = theta ** (-2.0 * np.arange(width // 2) / width)
    pairs = x[:, : width // 2] + 1j * x[:, width // 2 :]
    turned = pairs * np.exp(1j * np.outer(np.arange(length), frequency))
    return np.concatenate([turned.real, turned.imag], axis=1)


def _attention(x, weights, prefix, sizes):
    """arXiv 1706.03762, head by head and query by query; arXiv 2305.13245 for which keys a head looks at."""
    width = sizes.d_head
    rows = weights[f"{prefix}.query_key_value.weight"].reshape(-1, width, sizes.d_model)
    queries = rows[: sizes.n_head]
    keys, values = np.split(rows[sizes.n_head :], 2)
    heads = []
    for head in range(sizes.n_head):
        group = head // (sizes.n_head // sizes.n_kv_head)
        query, key, value = x @ queries[head].T, x @ keys[group].T, x @ values[group].T
        if sizes.qk_norm:
            query = _rms_norm(query, weights[f"{prefix}.query_norm.gain"])
            key = _rms_norm(key, weights[f"{prefix}.key_norm.gain"])
        query, key = _rotary(query, sizes.rope_theta), _rotary(key, sizes.rope_theta)
        mixed = []
        for position in range(len(x)):
            scores = key[: position + 1] @ query[position] / math.sqrt(width)
            shares = np.exp(scores - scores.max())
            mixed.append(shares / shares.sum() @ value[: position + 1])
        heads.append(mixed)
    return np.concatenate(heads, axis=1) @ weights[f"{prefix}.out.weight"].T


def _swiglu(x, weights, prefix):
    """arXiv 2002.05202: (swish(x W) * x V) W_2."""
    gate, up = np.split(weights[f"{prefix}.gate_and_up.weight"], 2)
    gated = x @ gate.T
    return (gated / (1 + np.exp(-gated)) * (x @ up.T)) @ weights[f"{prefix}.down.weight"].T


def _logits(model, sizes, tokens):
    weights = {name: value.detach().double().numpy() for name, value in model.named_parameters()}
    x = weights["embedding.weight"][tokens]
    for layer in range(sizes.n_layer):
        block = f"blocks.{layer}"
        normed = _rms_norm(x, weights[f"{block}.attention_norm.gain"])
        x = x + _attention(normed, weights, f"{block}.attention", sizes)
        normed = _rms_norm(x, weights[f"{block}.feed_forward_norm.gain"])
        x = x + _swiglu(normed, weights, f"{block}.feed_forward")
    return _rms_norm(x, weights["norm.gain"]) @ weights["embedding.weight"].T


@pytest.mark.parametrize("sizes", [GROUPED, PLAIN], ids=["grouped, normalised", "plain"])
def test_logits_agree_with_the_formulas_written_out_in_numpy(sizes):
    model = _lively_model(sizes)
    tokens = _tokens(sizes, 3, SEQ_LEN)
    with torch.no_grad():
        found = model(tokens).numpy()
    expected = np.stack([_logits(model, sizes, row) for row in tokens.numpy()])
    assert expected.std() > 1.0  # so that the tolerance means something
    np.testing.assert_allclose(found, expected, atol=2e-5, rtol=0)


def test_loss_is_the_mean_surprise_of_every_next_token():
    model = _lively_model(GROUPED)
    sequences = _tokens(GROUPED, 3, SEQ_LEN + 1)
    surprises = []
    for row in sequences.numpy():
        logits = _logits(model, GROUPED, row[:-1])
        probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
        surprises.append(-np.log(probabilities[np.arange(SEQ_LEN), row[1:]]))
    assert model.loss(sequences).item() == pytest.approx(np.mean(surprises), abs=1e-5)


# --- its parts -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sizes", [GROUPED, PLAIN], ids=["grouped, normalised", "plain"])
@pytest.mark.parametrize("position", [1, 5, SEQ_LEN - 1])
def test_a_token_changes_logits_from_its_own_position_on_and_none_before(sizes, position):
    model = _lively_model(sizes)
    tokens = _tokens(sizes, 2, SEQ_LEN)
    other = tokens.clone()
    other[:, position] = (other[:, position] + 1) % sizes.vocab_size
    with torch.no_grad():
        change = (model(tokens) - model(other)).abs().amax(dim=(0, 2))
    assert change[:position].max() < 1e-5
    assert change[position:].min() > 1e-3


def test_a_shorter_input_has_the_logits_of_the_longer_one_that_it_begins():
    model = _lively_model(GROUPED)
    tokens = _tokens(GROUPED, 2, SEQ_LEN)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens[:, :5]), model(tokens)[:, :5], atol=1e-5, rtol=0)


@st.composite
def _heads(draw):
    """A query and a key of one head, of even width."""
    width = 2 * draw(st.integers(1, 8))
    vector = st.lists(between(-3, 3), min_size=width, max_size=width)
    return torch.tensor(draw(vector)), torch.tensor(draw(vector))


def _at(vector, position, theta=10_000.0):
    """The vector as a query or key at that position."""
    cos, sin = rotary_tables(64, len(vector), theta)
    return rotate(vector.expand(1, 1, 64, -1), cos, sin)[0, 0, position]


@given(_heads(), st.integers(0, 31), st.integers(0, 31), st.integers(0, 32))
def test_scores_depend_on_how_far_apart_positions_are_and_not_on_where(heads, first, second, shift):
    query, key = heads
    score = _at(query, first) @ _at(key, second)
    shifted = _at(query, first + shift) @ _at(key, second + shift)
    assert shifted.item() == pytest.approx(score.item(), abs=5e-4)


@given(_heads(), st.integers(0, 63))
def test_turning_by_position_keeps_lengths(heads, position):
    assert _at(heads[0], position).norm().item() == pytest.approx(heads[0].norm().item(), rel=1e-5, abs=1e-5)


def test_the_first_pair_turns_by_one_radian_per_position_and_the_last_hardly():
    first, last = torch.tensor([1.0, 0, 0, 0]), torch.tensor([0, 1.0, 0, 0])
    np.testing.assert_allclose(_at(first, 3), [math.cos(3), 0, math.sin(3), 0], atol=1e-6)
    angle = 3 * 10_000**-0.5
    np.testing.assert_allclose(_at(last, 3), [0, math.cos(angle), 0, math.sin(angle)], atol=1e-6)


@pytest.mark.parametrize("n_kv_head", [1, 2])
def test_grouped_attention_is_full_attention_with_keys_and_values_repeated(n_kv_head):
    shared = Architecture(n_layer=1, d_model=32, n_head=4, n_kv_head=n_kv_head, d_ff=8, qk_norm=True)
    full = Architecture(n_layer=1, d_model=32, n_head=4, n_kv_head=4, d_ff=8, qk_norm=True)
    grouped, repeated = Attention(shared), Attention(full)
    rows = grouped.query_key_value.weight.unflatten(0, (-1, shared.d_head))
    query, key, value = rows.split((4, n_kv_head, n_kv_head))
    copies = 4 // n_kv_head
    every = torch.cat((query, key.repeat_interleave(copies, 0), value.repeat_interleave(copies, 0)))
    repeated.load_state_dict(grouped.state_dict() | {"query_key_value.weight": every.flatten(0, 1)})
    x = torch.randn(2, SEQ_LEN, 32, generator=torch.Generator().manual_seed(0))
    tables = rotary_tables(SEQ_LEN, shared.d_head, 10_000.0)
    with torch.no_grad():
        torch.testing.assert_close(grouped(x, *tables), repeated(x, *tables), atol=1e-6, rtol=0)


def test_rms_norm_is_its_formula():
    norm = RMSNorm(5)
    with torch.no_grad():
        norm.gain.copy_(torch.arange(1.0, 6.0))
    x = torch.tensor([[3.0, -4, 0, 0, 0], [1e-3, 0, 0, 0, 0]])
    expected = [
        np.array([3.0, -8, 0, 0, 0]) / math.sqrt(25 / 5),
        [1e-3 / math.sqrt(1e-6 / 5 + 1e-6), 0, 0, 0, 0],
    ]
    np.testing.assert_allclose(norm(x).detach(), expected, rtol=1e-6)


# --- how training starts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [256, 50_304])
def test_the_first_loss_is_that_of_guessing(vocab_size):
    sizes = Architecture(n_layer=1, d_model=32, n_head=2, n_kv_head=2, d_ff=64, vocab_size=vocab_size)
    model = _model(sizes)
    assert model.loss(_tokens(sizes, 16, SEQ_LEN + 1)).item() == pytest.approx(math.log(vocab_size), abs=0.1)


def test_the_residual_stream_starts_about_as_large_in_a_deep_model_as_in_a_shallow_one():
    largest = []
    for n_layer in (1, 32):
        sizes = Architecture(n_layer=n_layer, d_model=64, n_head=2, n_kv_head=2, d_ff=128)
        model = _model(sizes)
        streams = []
        model.norm.register_forward_pre_hook(lambda _, inputs, streams=streams: streams.append(inputs[0]))
        model(_tokens(sizes, 8, SEQ_LEN))
        largest.append(streams[0].pow(2).mean().sqrt().item())
    assert 0.5 < largest[1] / largest[0] < 2.0


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    first, again, other = (dict(_model(GROUPED, seed).named_parameters()) for seed in (0, 0, 1))
    for name, weight in first.items():
        assert torch.equal(weight, again[name])
        if weight.ndim == 1:
            assert torch.equal(weight, torch.ones_like(weight))
        else:
            assert not torch.isclose(weight, other[name]).any()


def test_weights_do_not_depend_on_what_else_draws_random_numbers():
    torch.manual_seed(1)
    first = _model(GROUPED)
    torch.manual_seed(2)
    assert all(map(torch.equal, first.parameters(), _model(GROUPED).parameters()))


def test_embedding_and_output_are_one_matrix():
    model = _lively_model(PLAIN)
    vocabularies = [name for name, p in model.named_parameters() if PLAIN.vocab_size in p.shape]
    assert vocabularies == ["embedding.weight"]
    unused = 7
    tokens = torch.full((1, 4), 3)
    before = model(tokens)
    with torch.no_grad():
        model.embedding.weight[unused] *= 2
    change = model(tokens) - before
    torch.testing.assert_close(change[..., unused], before[..., unused])
    assert change.count_nonzero() == 4


def test_nothing_but_the_gains_of_norms_is_a_vector():
    vectors = [name for name, p in _model(GROUPED).named_parameters() if p.ndim == 1]
    assert all(name.endswith("norm.gain") for name in vectors)
    assert len(vectors) == 4 * GROUPED.n_layer + 1  # with normalised queries and keys


def test_every_parameter_is_trained():
    model = _lively_model(GROUPED)
    model.loss(_tokens(GROUPED, 16, SEQ_LEN + 1)).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().max() > 0, name


def test_a_checkpoint_of_the_model_holds_its_parameters_only():
    model = _model(GROUPED)
    assert set(model.state_dict()) == {name for name, _ in model.named_parameters()}
