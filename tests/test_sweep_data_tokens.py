"""Files of token ids, as common trainers write them; ``_nanogpt`` and ``_llm_c`` follow those trainers' own writers."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.sweep.data import open_data, parts
from ebfit.sweep.data.corpus import Corpus

SEQ_LEN = 4


def _open(path: Path, seq_len: int = SEQ_LEN, val_sequences: int = 1, tokenizer: str = "bytes") -> Corpus:
    data = open_data(str(path), seq_len=seq_len, val_tokens=val_sequences * seq_len, tokenizer=tokenizer)
    assert isinstance(data, Corpus)
    return data


def _nanogpt(path: Path, tokens: np.ndarray, dtype: str = "<u2") -> None:
    tokens.astype(dtype).tofile(path)


def _llm_c(
    path: Path, tokens: np.ndarray, magic: int = 20240520, version: int = 1, dtype: str = "<u2"
) -> None:
    header = np.zeros(256, "<i4")
    header[:3] = magic, version, len(tokens)
    path.write_bytes(header.tobytes() + tokens.astype(dtype).tobytes())


def _llama_3(path: Path, tokens: np.ndarray) -> None:
    _llm_c(path, tokens, 20240801, 7, "<u4")


def _windows(data: Corpus) -> list[tuple[int, ...]]:
    """Return all windows, sorted."""
    rows = np.concatenate([data.sequences(0, 0, data.train_sequences), data.validation()])
    return sorted(map(tuple, rows.tolist()))


def _expected(tokens: np.ndarray, seq_len: int = SEQ_LEN) -> list[tuple[int, ...]]:
    starts = range(0, len(tokens) - seq_len, seq_len)
    return sorted(tuple(tokens[start : start + seq_len + 1].tolist()) for start in starts)


def _random(top: int, count: int = 1000, seed: int = 0) -> np.ndarray:
    """Return tokens below ``top``, the largest possible one among them."""
    tokens = np.random.default_rng(seed).integers(0, top, count)
    tokens[0] = top - 1
    return tokens


FORMATS = {
    "nanoGPT uint16": (_nanogpt, "bin", 50257, "uint16 without header", 50304),
    "nanoGPT uint32": (
        lambda path, t: _nanogpt(path, t, "<u4"),
        "bin",
        128_256,
        "uint32 without header",
        128_256,
    ),
    "nanoGPT characters": (_nanogpt, "bin", 65, "uint16 without header", 256),
    "llm.c GPT-2": (_llm_c, "bin", 50257, "uint16 after a header", 50304),
    "llm.c Llama 3": (_llama_3, "bin", 128_256, "uint32 after a header", 128_256),
    "llm.c Llama 3, small ids": (_llama_3, "bin", 300, "uint32 after a header", 50304),
    "npy int64": (lambda path, t: np.save(path, t), "npy", 151_936, "int64 of a .npy file", 151_936),
    "npy big-endian": (
        lambda path, t: np.save(path, t.astype(">u2")),
        "npy",
        50257,
        "uint16 of a .npy file",
        50304,
    ),
    "npy bytes": (lambda path, t: np.save(path, t.astype("u1")), "npy", 256, "uint8 of a .npy file", 256),
}


@pytest.mark.parametrize(("write", "suffix", "top", "layout", "vocab_size"), FORMATS.values(), ids=FORMATS)
def test_every_format_gives_back_its_tokens(tmp_path: Path, write, suffix, top, layout, vocab_size):
    path, tokens = tmp_path / f"tokens.{suffix}", _random(top)
    write(path, tokens)
    data = _open(path)
    assert _windows(data) == _expected(tokens)
    assert data.fingerprint["layout"] == layout
    assert data.vocab_size == vocab_size


@given(
    tokens=st.lists(st.integers(0, 65_535), min_size=9, max_size=400),
    small=st.integers(0, 3),
)
def test_uint16_tokens_are_not_mistaken_for_uint32(
    tmp_path_factory: pytest.TempPathFactory, tokens: list[int], small: int
):
    """Even where every second token is small, as long as the others are, too: that is a small vocabulary."""
    path = tmp_path_factory.mktemp("tokens") / "tokens.bin"
    for these in (tokens, [token % (small + 1) for token in tokens * 10]):
        _nanogpt(path, np.array(these))
        assert _open(path).fingerprint["tokens"] == len(these)


def test_a_folder_of_shards_is_one_corpus_and_no_window_crosses_shards(tmp_path: Path):
    tokens = [_random(50257, 101 + number, number) for number in range(12)]
    for number, shard in enumerate(tokens):
        _llm_c(tmp_path / f"fineweb_train_{number:06d}.bin", shard)
    data = _open(tmp_path, val_sequences=3)
    assert _windows(data) == sorted(window for shard in tokens for window in _expected(shard))
    assert "no validation file" in data.warnings[0]


@pytest.mark.parametrize(
    ("train", "val"),
    [
        (["train.bin"], "val.bin"),
        (["fineweb_train_000001.bin", "fineweb_train_000002.bin"], "fineweb_val_000000.bin"),
        (["tiny_shakespeare_train.bin"], "tiny_shakespeare_val.bin"),
        (["train-00000-of-00002.bin", "train-00001-of-00002.bin"], "validation-00000-of-00001.bin"),
        (["tokens.bin"], "val.bin"),
    ],
)
def test_validation_comes_from_the_files_named_for_it(tmp_path: Path, train: list[str], val: str):
    for number, name in enumerate(train):
        _llm_c(tmp_path / name, np.full(50, number))
    _llm_c(tmp_path / val, np.full(50, 99))
    (tmp_path / "meta.pkl").write_bytes(b"cos\nsystem\n(V'exit 1'\ntR.")
    (tmp_path / "input.txt").write_text("The text before it became tokens.")
    data = _open(tmp_path, val_sequences=12)
    assert set(data.validation().ravel()) == {99}
    assert set(data.sequences(0, 0, data.train_sequences).ravel()) == set(range(len(train)))
    assert data.fingerprint["validation"] == "data of its own"
    if train != ["tokens.bin"]:
        # Naming one training file trains on that alone, and the validation file beside it is found.
        alone = _open(tmp_path / train[0])
        assert alone.fingerprint["tokens"] == 50
        assert set(alone.validation().ravel()) == {99}


def test_a_file_and_its_copy_elsewhere_have_the_same_fingerprint(tmp_path: Path):
    first, second, other = (tmp_path / name for name in ("a.npy", "b.npy", "c.npy"))
    np.save(first, _random(1000))
    np.save(second, _random(1000))
    np.save(other, _random(1000, seed=1))
    assert _open(first).fingerprint == _open(second).fingerprint
    assert _open(first).fingerprint["sha256"] != _open(other).fingerprint["sha256"]


def test_where_shards_are_cut_is_part_of_the_fingerprint(tmp_path: Path):
    """It decides the windows."""
    tokens = _random(1000, 80)
    for name, cut in (("first", 40), ("second", 44)):
        (tmp_path / name).mkdir()
        np.save(tmp_path / name / "0.npy", tokens[:cut])
        np.save(tmp_path / name / "1.npy", tokens[cut:])
    assert _open(tmp_path / "first").fingerprint["sha256"] != _open(tmp_path / "second").fingerprint["sha256"]


def test_a_file_too_large_to_read_is_mapped_and_its_tokens_are_checked_when_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(parts, "READ_WHOLE_BYTES", 2**20)
    path, seq_len, windows = tmp_path / "large.bin", 1024, 36 * 2**10
    path.write_bytes(bytes(2 * windows * seq_len + 2))
    before = _open(path, seq_len).fingerprint
    with path.open(
        "r+b"
    ) as file:  # the window that is held out, midway between two of the blocks that are read
        file.seek(windows // 2 * seq_len * 2)
        file.write(np.array([60_000], "<u2").tobytes())
    data = _open(path, seq_len)
    assert data.fingerprint == before
    assert data.fingerprint["sha256_covers"] == "a sample"
    assert data.fingerprint["train_tokens"] == (windows - 1) * seq_len
    assert data.sequences(0, 0, 4).sum() == 0
    data.check_vocabulary(60_000)
    with pytest.raises(
        BadInputError, match=r"large\.bin: holds token 60000, but the model's vocabulary is 60000"
    ):
        data.validation()
    data.check_vocabulary(60_001)
    assert data.validation().max() == 60_000


@pytest.mark.parametrize("write", [_nanogpt, _llm_c, _llama_3], ids=["nanoGPT", "llm.c", "Llama 3"])
def test_a_vocabulary_smaller_than_that_of_the_file_is_refused(tmp_path: Path, write):
    path = tmp_path / "tokens.bin"
    write(path, _random(40_000))
    data = _open(path)
    data.check_vocabulary(40_000)
    with pytest.raises(
        BadInputError, match=r"tokens\.bin: holds token 39999, but the model's vocabulary is 39999"
    ):
        data.check_vocabulary(39_999)


def test_a_validation_file_of_another_vocabulary_is_refused_by_name(tmp_path: Path):
    _nanogpt(tmp_path / "train.bin", _random(100))
    _nanogpt(tmp_path / "val.bin", _random(200))
    data = _open(tmp_path)
    with pytest.raises(BadInputError, match=r"val\.bin: holds token 199"):
        data.check_vocabulary(128)


def _save(path: Path, array: np.ndarray) -> None:
    path = path.with_suffix(".npy")
    np.save(path, array, allow_pickle=True)


BROKEN = {
    "empty": (lambda path: path.write_bytes(b""), "empty"),
    "odd size": (lambda path: path.write_bytes(b"\1" * 1001), "no whole number of uint16"),
    "truncated": (
        lambda path: (_llm_c(path, _random(99)), os.truncate(path, 1100)),
        "promises 1,000 tokens and 38",
    ),
    "too long": (lambda path: (_llm_c(path, _random(99)), os.truncate(path, 3026)), "and 1,001 follow"),
    "nothing after the header": (lambda path: _llm_c(path, np.array([])), "holds no tokens"),
    "another version": (lambda path: _llm_c(path, _random(99), version=2), "20240520 version 2; ebfit reads"),
    "an unknown header": (
        lambda path: _llm_c(path, _random(99), magic=20260101),
        "20260101 version 1; ebfit reads",
    ),
    "an evaluation": (lambda path: _llm_c(path, _random(99), magic=20240522), "questions for an evaluation"),
    "floats": (lambda path: _save(path, np.zeros(99)), r"holds float64 of shape \(99,\)"),
    "truth values": (lambda path: _save(path, np.zeros(99, bool)), "holds bool"),
    "two dimensions": (lambda path: _save(path, np.zeros((9, 9), int)), r"shape \(9, 9\)"),
    "a number": (lambda path: _save(path, np.array(3)), r"shape \(\)"),
    "no numbers": (lambda path: _save(path, np.zeros(0, int)), "holds no tokens"),
    "objects": (lambda path: _save(path, np.array([{}] * 99)), "a pickle is not loaded"),
    "negative": (lambda path: _save(path, np.array([1, -5] * 50)), "holds token -5"),
    "text called npy": (
        lambda path: path.with_suffix(".npy").write_text("no array" * 9),
        "not a whole .npy file",
    ),
}


@pytest.mark.parametrize(("write", "message"), BROKEN.values(), ids=BROKEN)
def test_broken_files_are_refused_in_a_sentence(tmp_path: Path, write, message: str):
    write(tmp_path / "tokens.bin")
    (path,) = tmp_path.iterdir()
    with pytest.raises(BadInputError, match=message) as refused:
        _open(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert "\n" not in str(refused.value)


@given(data=st.binary(max_size=3000), suffix=st.sampled_from(["bin", "npy", "txt"]), header=st.booleans())
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, suffix: str, header: bool
):
    path = tmp_path_factory.mktemp("any") / f"data.{suffix}"
    np.save(path.with_suffix(".npy"), _random(100, 50))
    beginning = {"npy": path.with_suffix(".npy").read_bytes()[:60], "bin": b"\x88\xd8\x34\x01\1\0\0\0"}
    path.write_bytes((beginning.get(suffix, b"") if header else b"") + data)
    with suppress(BadInputError):
        assert len(_windows(_open(path))) > 1


@given(at=st.integers(0, 127), byte=st.integers(0, 255))
def test_a_damaged_npy_header_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int
):
    path = tmp_path_factory.mktemp("damaged") / "tokens.npy"
    np.save(path, _random(100, 50))
    whole = bytearray(path.read_bytes())
    whole[at] = byte
    path.write_bytes(bytes(whole))
    with suppress(BadInputError):
        assert len(_windows(_open(path))) > 1


def test_a_file_that_shrinks_while_it_is_used_is_refused(tmp_path: Path):
    for name in ("train_0.npy", "train_1.npy"):
        np.save(tmp_path / name, _random(100, 50))
    data = _open(tmp_path)
    (tmp_path / "train_1.npy").write_bytes(b"")
    with pytest.raises(BadInputError, match=r"train_1\.npy: can no longer be read"):
        data.sequences(0, 0, data.train_sequences)


def test_shards_shorter_than_a_sequence_are_named(tmp_path: Path):
    for name, length in (("a.npy", 50), ("b.npy", SEQ_LEN)):
        np.save(tmp_path / name, np.arange(length))
    data = _open(tmp_path)
    assert any("1 of 2 files are shorter" in warning and "b.npy" in warning for warning in data.warnings)


def test_more_shards_than_files_may_be_open_at_once(tmp_path: Path):
    resource = pytest.importorskip("resource")
    for number in range(400):
        np.save(tmp_path / f"{number:03d}.npy", np.full(2 * SEQ_LEN + 1, number))
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (320, limits[1]))
    try:
        data = _open(tmp_path)
        starts = data.sequences(0, 0, data.train_sequences)[:, 0]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert set(starts.tolist()) == set(range(400))


def test_a_tokenizer_for_tokens_is_refused(tmp_path: Path):
    _nanogpt(tmp_path / "train.bin", _random(100))
    with pytest.raises(BadInputError, match="tokens already"):
        _open(tmp_path, tokenizer="gpt2")
