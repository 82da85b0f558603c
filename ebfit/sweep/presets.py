"""Models to choose from, each with a sequence length and settings of the sweep that suit it."""

from dataclasses import dataclass

from ebfit.errors import BadInputError
from ebfit.sweep.architecture import Architecture


@dataclass(frozen=True)
class Preset:
    """A model and the sweep that is proposed for it; every setting can be changed by an option.

    Attributes
    ----------
    architecture : Architecture
        Its vocabulary is that of the data, unless the user sets it.
    seq_len : int
        Tokens per sequence.
    batch_tokens : tuple of int
        Batch sizes, tokens per step.
    lr : float
    warmup_steps : int
    max_tokens : int
        The most tokens that a run consumes.
    max_steps : int
        The most optimizer steps that a run takes.
    val_tokens : int
        Size of the validation set.
    until_loss : float or None
        A run stops once its loss is below this.
    seeds : int
        Runs per batch size.
    evaluations_per_doubling : int
        Validations while the step number doubles.
    """

    architecture: Architecture
    seq_len: int
    batch_tokens: tuple[int, ...]
    lr: float
    warmup_steps: int
    max_tokens: int
    max_steps: int
    val_tokens: int
    until_loss: float | None = None
    seeds: int = 1
    evaluations_per_doubling: int = 16


def _doubling(first: int, count: int) -> tuple[int, ...]:
    return tuple(first * 2**i for i in range(count))


# Names say about how many parameters the blocks have with the embedding of 50,304 tokens; `tiny` and `10m` are meant
# for bytes. Learning rates are for AdamW and common for such sizes; they are not tuned.
PRESETS = {
    # Chosen so that two CPU cores show all stages of the law in minutes: at so high a learning rate batches of up to
    # 256 tokens soon level off, each at a loss of its own, and sizes lie close where they do.
    "tiny": Preset(
        Architecture(n_layer=1, d_model=48, n_head=3, n_kv_head=3, d_ff=96),
        seq_len=32,
        batch_tokens=(32, 64, 128, 192, 256, 320, 384, 512, 768, *_doubling(1024, 5)),
        lr=3e-2,
        warmup_steps=50,
        max_tokens=6_000_000,
        max_steps=8_000,
        val_tokens=8192,
        until_loss=2.05,
        seeds=2,
        evaluations_per_doubling=24,
    ),
    "10m": Preset(
        Architecture(n_layer=6, d_model=384, n_head=6, n_kv_head=6, d_ff=1024),
        seq_len=256,
        batch_tokens=_doubling(512, 10),
        lr=1e-3,
        warmup_steps=100,
        max_tokens=200_000_000,
        max_steps=50_000,
        val_tokens=2**17,
    ),
    "60m": Preset(
        Architecture(n_layer=10, d_model=512, n_head=8, n_kv_head=8, d_ff=1408),
        seq_len=1024,
        batch_tokens=_doubling(2**12, 10),
        lr=1e-3,
        warmup_steps=100,
        max_tokens=1_200_000_000,
        max_steps=50_000,
        val_tokens=2**20,
    ),
    "125m": Preset(
        Architecture(n_layer=12, d_model=768, n_head=12, n_kv_head=12, d_ff=2048),
        seq_len=1024,
        batch_tokens=_doubling(2**12, 10),
        lr=6e-4,
        warmup_steps=200,
        max_tokens=2_500_000_000,
        max_steps=50_000,
        val_tokens=2**20,
    ),
    "350m": Preset(
        Architecture(n_layer=24, d_model=1024, n_head=16, n_kv_head=16, d_ff=2816),
        seq_len=1024,
        batch_tokens=_doubling(2**13, 10),
        lr=3e-4,
        warmup_steps=300,
        max_tokens=7_000_000_000,
        max_steps=50_000,
        val_tokens=2**21,
    ),
    "1b": Preset(
        Architecture(n_layer=20, d_model=2048, n_head=16, n_kv_head=4, d_ff=5632, qk_norm=True),
        seq_len=2048,
        batch_tokens=_doubling(2**14, 10),
        lr=2e-4,
        warmup_steps=400,
        max_tokens=20_000_000_000,
        max_steps=50_000,
        val_tokens=2**21,
    ),
}


def preset_named(name: str) -> Preset:
    """Return a preset.

    Raises
    ------
    BadInputError
        If there is none of this name.
    """
    if name not in PRESETS:
        raise BadInputError(f"--preset {name}: there is none. Choose one of {', '.join(PRESETS)}.")
    return PRESETS[name]
