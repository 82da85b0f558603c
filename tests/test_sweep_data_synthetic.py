"""`--data synthetic`: the stated entropy is the true one, and any sequence can be made without the ones before it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from ebfit.errors import BadInputError
from ebfit.sweep.data import open_data
from ebfit.sweep.data.markov import SHARE, SYMBOLS, UNITS, MarkovProcess, alias_table
from ebfit.sweep.data.synthetic import Synthetic

SEQ_LEN = 16


def _open(name: str = "synthetic", seq_len: int = SEQ_LEN, val_sequences: int = 8) -> Synthetic:
    data = open_data(name, seq_len=seq_len, val_tokens=val_sequences * seq_len)
    assert isinstance(data, Synthetic)
    return data


@pytest.fixture(scope="module")
def data() -> Synthetic:
    return _open()


@pytest.fixture(scope="module")
def another() -> Synthetic:
    """The same data, opened a second time."""
    return _open()


@pytest.fixture(scope="module")
def process() -> MarkovProcess:
    return MarkovProcess.of_seed(0)


def _true_losses(process: MarkovProcess, sequences: np.ndarray) -> np.ndarray:
    """Return -log p of every target, by the definition of the process."""
    share = SHARE / 256
    one_back, two_back, marginal = (t / UNITS for t in (process.one_back, process.two_back, process.marginal))
    before, previous, target = sequences[:, :-2], sequences[:, 1:-1], sequences[:, 2:]
    later = share * one_back[previous, target] + (1 - share) * two_back[before, target]
    # What stands before the first symbol is not known; it has the stationary distribution.
    first, second = sequences[:, 0], sequences[:, 1]
    at_first = share * one_back[first, second] + (1 - share) * (marginal @ two_back)[second]
    return -np.log(np.column_stack([at_first, later]))


@pytest.mark.parametrize("seq_len", [1, 2, 5, 40])
def test_the_loss_of_the_true_probabilities_is_the_stated_entropy(seq_len: int):
    data = _open("synthetic:3", seq_len)
    process = MarkovProcess.of_seed(3)
    losses = _true_losses(process, data.sequences(0, 0, 2**20 // seq_len // 4)).mean(axis=1)
    error = losses.std() / np.sqrt(len(losses))
    assert error < 0.01
    assert abs(losses.mean() - data.fingerprint["entropy_nats_per_token"]) < 4 * error


def test_far_from_the_start_the_loss_is_the_entropy_rate(data: Synthetic, process: MarkovProcess):
    losses = _true_losses(process, data.sequences(1, 0, 2**15))[:, 8:].mean(axis=1)
    error = losses.std() / np.sqrt(len(losses))
    assert abs(losses.mean() - data.fingerprint["entropy_rate_nats_per_token"]) < 4 * error
    assert data.fingerprint["entropy_rate_nats_per_token"] < data.fingerprint["entropy_nats_per_token"]


def test_every_place_of_a_sequence_has_the_stationary_distribution(data: Synthetic, process: MarkovProcess):
    sequences = data.sequences(2, 0, 2**16)
    common = process.marginal > 10 * UNITS / len(
        sequences
    )  # ten of each are expected; the rest are taken together
    expected = np.append(process.marginal[common], process.marginal[~common].sum()) / UNITS * len(sequences)
    for place in range(SEQ_LEN + 1):
        counts = np.bincount(sequences[:, place], minlength=SYMBOLS)
        seen = np.append(counts[common], counts[~common].sum())
        distance = float(((seen - expected) ** 2 / expected).sum())
        assert chi2.sf(distance, len(expected) - 1) > 1e-4, f"place {place}"


def test_the_stationary_distribution_stays_as_it_is(process: MarkovProcess):
    mixture = (SHARE * process.one_back + (256 - SHARE) * process.two_back) / (256 * UNITS)
    after = process.marginal @ mixture
    # Each is rounded to a whole unit, and the likeliest takes what is then missing.
    assert np.abs(after - process.marginal).max() < SYMBOLS / 2
    assert process.marginal.sum() == UNITS


def test_symbols_after_a_given_pair_have_its_probabilities(data: Synthetic, process: MarkovProcess):
    sequences = data.sequences(3, 0, 2**16)
    before, previous, target = sequences[:, :-2], sequences[:, 1:-1], sequences[:, 2:]
    pairs = np.bincount((before * SYMBOLS + previous).ravel())
    for pair in np.argsort(-pairs)[:3]:
        a, b = divmod(int(pair), SYMBOLS)
        found = target[(before == a) & (previous == b)]
        true = (SHARE * process.one_back[b] + (256 - SHARE) * process.two_back[a]) / (256 * UNITS)
        common = true * len(found) > 10
        expected = np.append(true[common], true[~common].sum()) * len(found)
        counts = np.bincount(found, minlength=SYMBOLS)
        seen = np.append(counts[common], counts[~common].sum())
        assert chi2.sf(float(((seen - expected) ** 2 / expected).sum()), len(expected) - 1) > 1e-4


@st.composite
def weights_of_rows(draw: st.DrawFn) -> np.ndarray:
    raw = draw(st.lists(st.integers(0, 2**20), min_size=SYMBOLS, max_size=SYMBOLS).filter(any))
    weights = np.array([UNITS * weight // sum(raw) for weight in raw], np.int64)
    weights[draw(st.integers(0, SYMBOLS - 1))] += UNITS - weights.sum()
    return weights


@given(weights=weights_of_rows())
def test_alias_tables_hold_exactly_the_weights(weights: np.ndarray):
    thresholds, aliases = alias_table(weights)
    column = UNITS // SYMBOLS
    assert ((thresholds >= 0) & (thresholds <= column)).all()
    held = thresholds.copy()
    np.add.at(held, aliases, column - thresholds)
    np.testing.assert_array_equal(held, weights)


@settings(max_examples=40)
@given(first=st.integers(0, 20_000), count=st.integers(1, 9000), seed=st.integers(0, 2**64 - 1))
def test_any_sequence_can_be_made_without_the_ones_before(
    data: Synthetic, another: Synthetic, first: int, count: int, seed: int
):
    asked = data.sequences(seed, first, count)
    for number in (count - 1, count // 2, 0):
        np.testing.assert_array_equal(another.sequences(seed, first + number, 1)[0], asked[number])


@settings(max_examples=40)
@given(cuts=st.lists(st.integers(1, 6000), min_size=1, max_size=4))
def test_the_order_does_not_depend_on_how_many_are_taken_at_once(
    data: Synthetic, another: Synthetic, cuts: list[int]
):
    first, pieces = 0, []
    for cut in cuts:
        pieces.append(data.sequences(5, first, cut))
        first += cut
    np.testing.assert_array_equal(np.concatenate(pieces), another.sequences(5, 0, first))


def test_seeds_and_validation_share_no_sequence(data: Synthetic):
    streams = [data.sequences(0, 0, 2000), data.sequences(1, 0, 2000), _open(val_sequences=2000).validation()]
    rows = np.concatenate(streams)
    assert len(np.unique(rows, axis=0)) == len(rows)


def test_validation_is_the_same_whatever_its_size_and_the_sequences_drawn(data: Synthetic):
    data.sequences(7, 0, 10)
    np.testing.assert_array_equal(data.validation(), _open(val_sequences=200).validation()[:8])


def test_another_seed_of_the_process_is_another_process():
    first, second = _open("synthetic:1"), _open("synthetic:2")
    assert first.fingerprint["sha256"] != second.fingerprint["sha256"]
    assert (first.sequences(0, 0, 50) != second.sequences(0, 0, 50)).mean() > 0.5
    assert _open("synthetic").fingerprint == _open("synthetic:0").fingerprint


@pytest.mark.parametrize(
    "name", ["synthetic:", "synthetic:-1", "synthetic:x", "synthetic:1.5", f"synthetic:{2**62}"]
)
def test_what_is_no_seed_is_refused(name: str):
    with pytest.raises(BadInputError, match="seed must be a whole number"):
        _open(name)


def test_the_largest_seed_works():
    assert _open(f"synthetic:{2**62 - 1}").validation().max() < SYMBOLS


def test_a_vocabulary_without_some_of_the_symbols_is_refused(data: Synthetic):
    data.check_vocabulary(SYMBOLS)
    with pytest.raises(BadInputError, match="holds token 255, but the model's vocabulary is 255"):
        data.check_vocabulary(255)


def test_a_tokenizer_is_refused():
    with pytest.raises(BadInputError, match="tokens already"):
        open_data("synthetic", seq_len=8, val_tokens=8, tokenizer="gpt2")
