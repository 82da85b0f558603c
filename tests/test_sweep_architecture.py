"""Sizes of models: what they add up to, counted on the model itself, and what is refused."""

import math
from dataclasses import replace

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ebfit.errors import BadInputError
from ebfit.sweep.architecture import Architecture, with_overrides
from ebfit.sweep.model import Model
from ebfit.sweep.presets import PRESETS, preset_named

SMALL = Architecture(n_layer=2, d_model=32, n_head=4, n_kv_head=4, d_ff=48, vocab_size=100)


# --- parameters ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("vocab_size", [256, 50_304])
@pytest.mark.parametrize("name", PRESETS)
def test_parameters_of_every_preset_are_those_of_its_model(name, vocab_size):
    sizes = replace(PRESETS[name].architecture, vocab_size=vocab_size)
    with torch.device("meta"):
        model = Model(sizes, seq_len=8)
    assert sizes.parameters == sum(p.numel() for p in model.parameters())
    assert sizes.parameters_without_embeddings == sizes.parameters - model.embedding.weight.numel()


@pytest.mark.parametrize("n_kv_head", [1, 2, 4])
@pytest.mark.parametrize("qk_norm", [False, True])
def test_parameters_count_shared_keys_and_norms_of_queries(n_kv_head, qk_norm):
    sizes = replace(SMALL, n_kv_head=n_kv_head, qk_norm=qk_norm)
    assert sizes.parameters == sum(p.numel() for p in Model(sizes, seq_len=8).parameters())


# --- arithmetic ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes",
    [SMALL, replace(SMALL, n_kv_head=2, qk_norm=True), PRESETS["tiny"].architecture],
    ids=["plain", "grouped", "tiny"],
)
def test_flops_are_those_that_torch_counts(sizes):
    """torch counts products of matrices, as we do, and nothing else.

    Attention goes through torch's plain backend: of the CPU's fused one it counts nothing. Neither knows of the
    causal mask: both count the full square of queries and keys, as model FLOPs utilisation is usually stated.
    """
    batch, seq_len = 3, 16
    model = Model(sizes, seq_len)
    sequences = torch.zeros((batch, seq_len + 1), dtype=torch.int64)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model.loss(sequences).backward()
    assert sizes.flops_per_token(seq_len) * batch * seq_len == counter.get_total_flops()


# --- overrides -----------------------------------------------------------------------------------------------


def test_sizes_are_set_by_text():
    found = with_overrides(
        SMALL,
        ["n_layer=8", "qk_norm=true", "rope_theta=5e5", " d_model = 6_4 ", "n_kv_head=2", "vocab_size=300"],
    )
    assert found == Architecture(
        n_layer=8,
        d_model=64,
        n_head=4,
        n_kv_head=2,
        d_ff=48,
        vocab_size=300,
        qk_norm=True,
        rope_theta=500_000.0,
    )


def test_nothing_set_changes_nothing():
    assert with_overrides(SMALL, []) == SMALL


@pytest.mark.parametrize(
    ("text", "value"), [("true", True), ("Yes", True), ("1", True), ("FALSE", False), ("no", False)]
)
def test_switches_are_read_as_people_write_them(text, value):
    assert with_overrides(replace(SMALL, qk_norm=not value), [f"qk_norm={text}"]).qk_norm is value


def test_more_heads_stay_ungrouped_unless_grouping_was_asked_for():
    assert with_overrides(SMALL, ["n_head=8"]).n_kv_head == 8
    assert with_overrides(replace(SMALL, n_kv_head=2), ["n_head=8"]).n_kv_head == 2
    assert with_overrides(SMALL, ["n_head=8", "n_kv_head=1"]).n_kv_head == 1


def test_sizes_that_only_fit_together_can_be_set_together():
    found = with_overrides(SMALL, ["n_head=3", "d_model=48"])
    assert (found.n_head, found.d_model, found.d_head) == (3, 48, 16)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("layers=8", "--set layers=8: write NAME=VALUE, where NAME is one of n_layer, d_model"),
        ("8", "--set 8: write NAME=VALUE"),
        ("", "write NAME=VALUE"),
        ("d_head=8", "write NAME=VALUE"),  # a size, but one that follows from others
        ("n_layer", "--set n_layer: give a whole number"),
        ("n_layer=2.5", "--set n_layer=2.5: give a whole number"),
        ("n_layer=many", "--set n_layer=many: give a whole number"),
        ("rope_theta=big", "--set rope_theta=big: give a number"),
        ("qk_norm=maybe", "--set qk_norm=maybe: give true or false"),
        ("n_layer=0", "n_layer=0: must be above 0"),
        ("d_ff=-4", "d_ff=-4: must be above 0"),
        ("rope_theta=nan", "rope_theta=nan: must be above 0, and finite"),
        ("rope_theta=inf", "rope_theta=inf: must be above 0, and finite"),  # JSON could not hold it
        ("n_head=5", "d_model=32 split over n_head=5 must give heads of an even width"),
        ("n_head=32", "d_model=32 split over n_head=32 must give heads of an even width"),
        ("n_kv_head=3", "n_head=4 must be a multiple of n_kv_head=3"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_name_of_the_size(text, says):
    with pytest.raises(BadInputError) as refusal:
        with_overrides(SMALL, [text])
    assert says in str(refusal.value)


# --- presets -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "vocab_size", "parameters"),
    [
        ("10m", 256, 10e6),
        ("60m", 50_304, 60e6),
        ("125m", 50_304, 125e6),
        ("350m", 50_304, 350e6),
        ("1b", 50_304, 1e9),
    ],
)
def test_presets_are_about_as_large_as_their_names_say(name, vocab_size, parameters):
    sizes = replace(preset_named(name).architecture, vocab_size=vocab_size)
    assert sizes.parameters == pytest.approx(parameters, rel=0.15)


def test_tiny_has_tens_of_thousands_of_parameters():
    assert 10_000 <= preset_named("tiny").architecture.parameters < 100_000


def test_presets_are_named_in_order_of_their_size():
    sizes = [preset.architecture.parameters_without_embeddings for preset in PRESETS.values()]
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("preset", PRESETS.values(), ids=PRESETS)
def test_what_a_preset_proposes_can_be_run(preset):
    for tokens in (*preset.batch_tokens, preset.val_tokens):
        assert tokens % preset.seq_len == 0
    assert list(preset.batch_tokens) == sorted(set(preset.batch_tokens))
    for tokens in preset.batch_tokens:  # the largest batch, too, has a stable phase
        assert min(preset.max_steps, preset.max_tokens // tokens) > preset.warmup_steps


def test_batch_sizes_of_the_default_preset_span_two_and_a_half_decades():
    sizes = preset_named("tiny").batch_tokens
    assert len(sizes) >= 8
    assert math.log10(sizes[-1] / sizes[0]) >= 2.5


def test_an_unknown_preset_is_refused_with_those_that_there_are():
    with pytest.raises(BadInputError, match=r"--preset 7b: there is none.*tiny, 10m, 60m, 125m, 350m, 1b"):
        preset_named("7b")
