import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebfit.cli.sizes import parse_size
from ebfit.errors import BadInputError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("65536", 65536),
        ("512Ki", 524_288),
        ("1M", 1_000_000),
        ("1.5M", 1_500_000),
        ("1.1K", 1100),  # not 1100.0000000000002
        ("2T", 2 * 10**12),
        ("3B", 3 * 10**9),
        ("4Mi", 4 * 2**20),
        ("1Gi", 2**30),
        ("0.5Ki", 512),
        ("1e6", 10**6),
        ("1_000_000", 10**6),
        (" 64k ", 64_000),
    ],
)
def test_sizes(text, size):
    assert parse_size(text) == size
    assert isinstance(parse_size(text), int)


@pytest.mark.parametrize(
    "text",
    ["", "K", "12Q", "-5", "0", "1.5", "0.3K5", "1,000", "nan", "inf", "1e400", "0.0001K", "５", "1" * 5000],
)
def test_no_sizes(text):
    with pytest.raises(BadInputError) as error:
        parse_size(text)
    assert f"'{text}'" in str(error.value)


@given(st.integers(1, 10**15), st.sampled_from(["", "K", "M", "B", "T", "Ki", "Mi", "Gi"]))
def test_a_suffix_multiplies(number, suffix):
    assert parse_size(f"{number}{suffix}") == number * parse_size(f"1{suffix}")
