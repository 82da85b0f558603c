"""Text to train on: files, folders, the standard library, and tokenizers."""

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.errors import BadInputError
from ebfit.sweep.data import open_data
from ebfit.sweep.data.corpus import Corpus
from ebfit.sweep.data.stdlib import stdlib_files


def _open(path: Path | str, seq_len: int = 8, val_sequences: int = 2, tokenizer: str = "bytes") -> Corpus:
    data = open_data(str(path), seq_len=seq_len, val_tokens=val_sequences * seq_len, tokenizer=tokenizer)
    assert isinstance(data, Corpus)
    return data


@given(
    text=st.binary(min_size=40, max_size=200).filter(lambda text: b"\0" not in text), at=st.integers(0, 39)
)
def test_the_fingerprint_changes_with_the_tokens_and_with_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, at: int
):
    folder = tmp_path_factory.mktemp("moved")
    first, second = folder / "a.txt", folder / "elsewhere" / "b.md"
    second.parent.mkdir()
    first.write_bytes(text)
    second.write_bytes(text)
    assert _open(first).fingerprint == _open(second).fingerprint
    second.write_bytes(text[:at] + bytes([text[at] % 255 + 1]) + text[at + 1 :])
    assert _open(first).fingerprint != _open(second).fingerprint
    second.write_bytes(text + b".")
    assert _open(first).fingerprint != _open(second).fingerprint


def test_the_tokens_of_text_are_its_bytes_of_any_encoding(tmp_path: Path):
    file = tmp_path / "latin.txt"
    text = "Füße, größer".encode("latin-1") * 10
    file.write_bytes(text)
    data = _open(file, seq_len=11, val_sequences=1)
    assert data.vocab_size == 256
    windows = [*data.sequences(0, 0, data.train_sequences), *data.validation()]
    found = {bytes(window.astype(np.uint8)) for window in windows}
    assert found == {text[start : start + 12] for start in range(0, len(text) - 11, 11)}


def test_a_folder_of_text_is_one_text_in_the_order_of_its_paths(tmp_path: Path):
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "one.md").write_bytes(b"B" * 20)
    (tmp_path / "a.txt").write_bytes(b"A" * 20)
    (tmp_path / "c.py").write_bytes(b"C" * 20)
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "picture.png").write_bytes(b"\x89PNG\r\n\0\0\0" * 9)
    (tmp_path / "meta.pkl").write_bytes(b"cos\nsystem\n" * 9)
    (tmp_path / ".hidden").write_bytes(b"H" * 99)
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_bytes(b"G" * 99)
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "nowhere.txt").symlink_to(tmp_path / "nowhere.txt")
    data = _open(tmp_path, seq_len=1, val_sequences=1)
    assert data.fingerprint["tokens"] == 3 * 20 + 2  # with a separator between files
    tokens = np.concatenate([data.sequences(0, 0, data.train_sequences), data.validation()])
    pairs, counts = np.unique(tokens, axis=0, return_counts=True)
    found = {bytes(pair.astype(np.uint8)): count for pair, count in zip(pairs, counts, strict=True)}
    expected = {b"AA": 19, b"BB": 19, b"CC": 19, b"A\0": 1, b"\0B": 1, b"B\0": 1, b"\0C": 1}
    assert found == expected


def test_validation_text_beside_the_training_text_is_found(tmp_path: Path):
    train, valid = tmp_path / "stories-train.txt", tmp_path / "stories-valid.txt"
    train.write_bytes(b"t" * 100)
    valid.write_bytes(b"v" * 100)
    (tmp_path / "other-valid.txt").write_bytes(b"o" * 100)
    data = _open(train)
    assert set(data.validation().ravel()) == {ord("v")}
    assert data.train_sequences == 99 // 8
    assert data.warnings == []
    before = data.fingerprint
    valid.write_bytes(b"w" * 100)
    assert _open(train).fingerprint != before


def test_a_folder_with_train_and_val_text_leaves_out_the_rest_and_says_so(tmp_path: Path):
    for name in ("wiki.train.txt", "wiki.valid.txt", "wiki.test.txt", "readme.txt"):
        (tmp_path / name).write_bytes(name[5:6].encode() * 100)
    data = _open(tmp_path)
    assert set(data.sequences(0, 0, data.train_sequences).ravel()) == {ord("t")}
    assert set(data.validation().ravel()) == {ord("v")}
    assert any("2 files" in warning and "left out" in warning for warning in data.warnings)


def test_source_code_called_train_and_val_is_just_text(tmp_path: Path):
    for name in ("train.py", "val.py", "model.py"):
        (tmp_path / name).write_bytes(b"x = 1\n" * 10)
    data = _open(tmp_path)
    assert data.fingerprint["tokens"] == 3 * 60 + 2
    assert "no validation file" in data.warnings[0]


def test_the_standard_library_is_at_hand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    files = stdlib_files()
    assert {"argparse.py", "os.py"} <= {file.name for file in files}
    data = _open("stdlib", seq_len=64, val_sequences=16)
    assert (
        data.fingerprint["tokens"] == sum(file.stat().st_size for file in files) + len(files) - 1 > 5_000_000
    )
    assert data.fingerprint["python"] == ".".join(map(str, sys.version_info[:3]))
    assert data.vocab_size == 256
    assert data.warnings == []


def test_the_standard_library_is_without_tests_and_what_an_installation_adds(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    wanted = ["abc.py", "json/decoder.py", "json/encoder.py", "unittest/case.py"]
    unwanted = [
        *("test/test_abc.py", "unittest/test/case.py", "lib2to3/tests/x.py", "idlelib/idle_test/x.py"),
        *("site-packages/numpy/core.py", "dist-packages/x.py", "lib-dynload/x.py", "__pycache__/x.py"),
        *(
            "_sysconfigdata__linux.py",
            "config-3.11-x86_64/python-config.py",
            "sitecustomize.py",
            "os.pyc",
            "LICENSE",
        ),
    ]
    for name in wanted + unwanted:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    assert stdlib_files() == [tmp_path / name for name in wanted]


def test_a_python_without_sources_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "os.pyc").write_bytes(b"\0")
    for root in (tmp_path, tmp_path / "python311.zip"):
        monkeypatch.setattr(sysconfig, "get_path", lambda name, root=root: str(root))
        with pytest.raises(BadInputError, match="without the sources"):
            _open("stdlib")


def test_a_folder_called_stdlib_is_pointed_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stdlib").mkdir()
    (tmp_path / "stdlib" / "mine.txt").write_bytes(b"mine" * 20)
    assert "write ./stdlib" in _open("stdlib").warnings[0]
    assert _open("./stdlib").fingerprint["tokens"] == 80


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, "no such file or folder"),
        (lambda path: path.write_bytes(b""), "empty"),
        (lambda path: path.write_bytes(b"\x1f\x8b\x08\0\0\0\0\0" * 50), "Unpack it"),
        (lambda path: path.mkdir(), "no text and no"),
        (lambda path: os.mkfifo(path), "neither a file nor a folder"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (lambda path: path.symlink_to("/dev/zero"), "neither a file nor a folder"),
        (
            lambda path: path.write_bytes(b"too short"),
            "9 tokens are too few for a validation set of 16 tokens",
        ),
    ],
)
def test_what_cannot_be_trained_on_is_refused_in_a_sentence(
    tmp_path: Path, make: Callable[[Path], Any], message: str
):
    path = tmp_path / "data.txt"
    make(path)
    with pytest.raises(BadInputError, match=message) as refused:
        _open(path)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["", "a\0b", "x" * 5000])
def test_what_is_no_path_is_refused(name: str):
    with pytest.raises(BadInputError, match="--data"):
        _open(name)


def test_a_pickle_is_never_loaded(tmp_path: Path):
    path = tmp_path / "data.pkl"
    path.write_bytes(b"cos\nmkdir\n(V" + str(tmp_path / "executed").encode() + b"\ntR." + b" " * 100)
    with pytest.raises(BadInputError, match="no text"):
        _open(path)
    assert not (tmp_path / "executed").exists()


def test_data_hold_the_validation_set_and_a_sequence_or_are_refused(tmp_path: Path):
    path = tmp_path / "data.txt"
    path.write_bytes(b"x" * (3 * 8 + 1))
    assert _open(path).train_sequences == 1
    path.write_bytes(b"x" * (3 * 8))
    with pytest.raises(BadInputError, match="24 tokens are too few"):
        _open(path)


def test_a_validation_file_that_is_too_small_is_refused(tmp_path: Path):
    (tmp_path / "train.txt").write_bytes(b"x" * 100)
    (tmp_path / "val.txt").write_bytes(b"x" * 16)
    with pytest.raises(BadInputError, match="16 tokens are too few for a validation set of 16 tokens"):
        _open(tmp_path)
    (tmp_path / "val.txt").write_bytes(b"x" * 17)
    assert len(_open(tmp_path).validation()) == 2
    (tmp_path / "train.txt").write_bytes(b"x" * 8)
    with pytest.raises(BadInputError, match="too few for a training sequence"):
        _open(tmp_path)


def test_a_vocabulary_smaller_than_that_of_the_text_is_refused(tmp_path: Path):
    path = tmp_path / "data.txt"
    path.write_bytes(b"abc" * 30)
    data = _open(path)
    data.check_vocabulary(ord("c") + 1)
    with pytest.raises(BadInputError, match=r"data\.txt: holds token 99, but the model's vocabulary is 99"):
        data.check_vocabulary(ord("c"))


def _words(known: dict[str, int]) -> Any:
    """Stand in for tiktoken: an encoding of words."""
    encoding = SimpleNamespace(
        n_vocab=len(known) + 1,
        eot_token=len(known),
        encode_ordinary=lambda text: [known[word] for word in text.split()],
    )
    return SimpleNamespace(list_encoding_names=lambda: ["words"], get_encoding=lambda name: encoding)


def test_text_is_tokenised_by_tiktoken_where_that_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setitem(sys.modules, "tiktoken", _words({"red": 0, "green": 1}))
    (tmp_path / "a.txt").write_text("red green " * 4)
    (tmp_path / "b.txt").write_text("green " * 4)
    data = _open(tmp_path, seq_len=1, val_sequences=1, tokenizer="words")
    tokens = np.concatenate([data.sequences(0, 0, data.train_sequences), data.validation()])
    assert sorted(tokens[:, 1]) == sorted([1, 0, 1, 0, 1, 0, 1, 2, 1, 1, 1, 1])
    assert data.vocab_size == 128
    assert data.fingerprint["tokenizer"] == "words"


def test_long_text_is_tokenised_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "tiktoken", _words({"red": 0}))
    path = tmp_path / "a.txt"
    path.write_text("red\n" * 600_000)
    assert _open(path, tokenizer="words").fingerprint["tokens"] == 600_000


def test_tiktoken_that_is_not_installed_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    path = tmp_path / "a.txt"
    path.write_text("red " * 20)
    with pytest.raises(BadInputError, match=r"pip install tiktoken.*--tokenizer bytes"):
        _open(path, tokenizer="gpt2")


def test_an_unknown_encoding_one_without_network_and_text_of_another_encoding_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    def no_network(name: str) -> None:
        raise ConnectionError("no route to host")

    tiktoken = _words({"red": 0})
    monkeypatch.setitem(sys.modules, "tiktoken", tiktoken)
    path = tmp_path / "a.txt"
    path.write_bytes(b"red \xff")
    with pytest.raises(BadInputError, match="Choose one of bytes, words"):
        _open(path, tokenizer="gpt7")
    with pytest.raises(BadInputError, match="not UTF-8 at byte 4"):
        _open(path, tokenizer="words")
    tiktoken.get_encoding = no_network
    with pytest.raises(BadInputError, match=r"no route to host.*TIKTOKEN_CACHE_DIR"):
        _open(path, tokenizer="words")
