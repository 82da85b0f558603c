"""Training on a corpus: every sequence once per epoch, in an order of the seed alone, and validation held out."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.sweep.data import open_data
from ebfit.sweep.data.corpus import Corpus, proposed_vocab_size
from ebfit.sweep.data.parts import part_in_memory


def _open(path: Path | str, seq_len: int = 8, val_sequences: int = 2, tokenizer: str = "bytes") -> Corpus:
    data = open_data(str(path), seq_len=seq_len, val_tokens=val_sequences * seq_len, tokenizer=tokenizer)
    assert isinstance(data, Corpus)
    return data


@st.composite
def corpora(draw: st.DrawFn) -> tuple[Corpus, list[np.ndarray], int]:
    """Corpora whose tokens are all different, their parts, and the length of a sequence."""
    seq_len = draw(st.integers(1, 7))
    lengths = draw(st.lists(st.integers(1, 60), min_size=1, max_size=4))
    windows = sum((length - 1) // seq_len for length in lengths)
    if windows < 2:
        lengths, windows = [*lengths, 2 * seq_len + 1], windows + 2
    parts, start = [], 0
    for length in lengths:
        parts.append(np.arange(start, start + length))
        start += length
    validation = draw(st.booleans())
    own = [part_in_memory("validation", np.arange(10_000, 10_000 + 40 * seq_len + 1))] if validation else []
    corpus = Corpus(
        "corpus",
        {},
        training=[part_in_memory(f"part {number}", part) for number, part in enumerate(parts)],
        validation=own,
        seq_len=seq_len,
        val_sequences=draw(st.integers(1, min(40, windows - 1))),
        vocab_size=None,
        warnings=[],
    )
    return corpus, parts, seq_len


@given(drawn=corpora(), seed=st.integers(0, 2**63), epoch=st.integers(0, 3))
def test_an_epoch_trains_once_on_every_token_that_is_not_held_out(
    drawn: tuple[Corpus, list[np.ndarray], int], seed: int, epoch: int
):
    corpus, parts, seq_len = drawn
    trained = corpus.sequences(seed, epoch * corpus.train_sequences, corpus.train_sequences)
    assert trained.dtype == np.int32
    assert (np.diff(trained, axis=1) == 1).all()  # each is a window of one part
    held_out = corpus.validation()
    targets = np.sort(np.concatenate([trained[:, 1:].ravel(), held_out[:, 1:].ravel()]))
    expected = [part[1 : 1 + (len(part) - 1) // seq_len * seq_len] for part in parts]
    np.testing.assert_array_equal(targets[targets < 10_000], np.concatenate(expected))
    # The one token that training shares with a held-out window is the window's last: as an input, not as a target.
    shared = np.intersect1d(trained, held_out[:, 1:])
    assert np.isin(shared, held_out[:, -1]).all()
    assert not np.isin(shared, trained[:, 1:]).any()


@given(drawn=corpora(), seed=st.integers(0, 99), cuts=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_the_order_does_not_depend_on_the_batch_size(
    drawn: tuple[Corpus, list[np.ndarray], int], seed: int, cuts: list[int]
):
    corpus = drawn[0]
    whole = corpus.sequences(seed, 0, sum(cuts))
    first = 0
    for cut in cuts:
        np.testing.assert_array_equal(corpus.sequences(seed, first, cut), whole[first : first + cut])
        first += cut


def test_epochs_and_seeds_have_orders_of_their_own(tmp_path: Path):
    file = tmp_path / "numbers.npy"
    np.save(file, np.arange(8001))
    data = _open(file)
    orders = [
        tuple(data.sequences(seed, epoch * data.train_sequences, data.train_sequences)[:, 0].tolist())
        for seed in range(2)
        for epoch in range(2)
    ]
    assert len(set(orders)) == 4
    assert {tuple(sorted(order)) for order in orders} == {tuple(sorted(orders[0]))}


def test_held_out_windows_are_spread_evenly(tmp_path: Path):
    file = tmp_path / "numbers.npy"
    np.save(file, np.arange(1000 * 8 + 1))
    starts = _open(file, val_sequences=10).validation()[:, 0] // 8
    np.testing.assert_array_equal(starts, np.arange(50, 1000, 100))


def test_validation_does_not_depend_on_what_was_trained_on(tmp_path: Path):
    file = tmp_path / "text.txt"
    file.write_bytes(bytes(range(1, 200)) * 5)
    data = _open(file)
    before = data.validation()
    data.sequences(3, 5, 200)
    np.testing.assert_array_equal(data.validation(), before)


@pytest.mark.parametrize(("seq_len", "val_tokens"), [(0, 8), (8, 0), (8, 4), (8, 12), (8, -8)])
def test_sizes_that_do_not_fit_are_refused(seq_len: int, val_tokens: int):
    with pytest.raises(BadInputError, match="must be"):
        open_data("synthetic", seq_len=seq_len, val_tokens=val_tokens)


@given(largest=st.integers(0, 2**20))
def test_the_proposed_vocabulary_holds_the_largest_token(largest: int):
    proposed = proposed_vocab_size(largest)
    assert proposed > largest
    assert proposed % 128 == 0
