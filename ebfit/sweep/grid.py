"""From the options of a sweep to its runs, batch sizes x learning rates x seeds; all is checked before any trains."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Literal

from ebfit.errors import BadInputError
from ebfit.sweep.architecture import with_overrides
from ebfit.sweep.data import Data, open_data
from ebfit.sweep.presets import Preset, preset_named
from ebfit.sweep.recipe import DecayShape, Optimizer, Precision, Recipe

LrRule = Literal["none", "sqrt", "linear"]
_LR_DIGITS = 4  # of a learning rate that a rule computes: enough, and names of runs stay short
_MOST_RUNS = 10_000
_LARGEST_LR = 1000.0  # so that a log is read as it was written: no trainer has such a learning rate


@dataclass(frozen=True)
class BatchRange:
    """Batch sizes from `first` to at most `last`, in tokens.

    Attributes
    ----------
    first, last : int
    count : int or None
        So many sizes, evenly spaced in their logarithm and rounded to whole sequences; None: each twice the one before.
    """

    first: int
    last: int
    count: int | None = None

    def sizes(self, seq_len: int) -> list[int]:
        """Return the batch sizes, in tokens.

        Raises
        ------
        BadInputError
            If the last is not above the first, or the count is below two.
        """
        if not 0 < self.first < self.last:
            raise BadInputError(
                f"--batch-sizes {self.first}..{self.last}: write the smaller first, such as 64..32Ki."
            )
        if self.count is None:
            return [self.first * 2**i for i in range((self.last // self.first).bit_length())]
        if not 2 <= self.count <= _MOST_RUNS:
            raise BadInputError(
                f"--batch-sizes {self.first}..{self.last}:{self.count}: give a count of 2 or more."
            )
        growth = (self.last / self.first) ** (1 / (self.count - 1))
        spaced = (self.first * growth**i for i in range(self.count))
        return [max(round(size / seq_len), 1) * seq_len for size in spaced]


@dataclass(frozen=True)
class GridOptions:
    """What a user chooses of a sweep; what is None or empty is taken from the preset.

    Attributes
    ----------
    preset : str
    overrides : tuple of str
        Sizes of the model, such as ``n_layer=8``.
    data, tokenizer : str
        As `ebfit.sweep.data.open_data` takes them.
    seq_len, val_tokens : int or None
        Tokens per sequence, and of the validation set.
    batch_sizes : tuple of int or BatchRange
        Tokens per step.
    seeds : int or None
        Runs per batch size and learning rate, with consecutive seeds.
    first_seed : int
        The first of these.
    lr : float or None
        Learning rate of the stable phase, of all batch sizes unless there is a rule.
    lrs : tuple of float
        Learning rates to train every batch size at, in place of `lr`.
    lr_rule : {"none", "sqrt", "linear"}
        How the learning rate grows with the batch size.
    lr_batch_tokens : int or None
        The batch size that `lr` belongs to under a rule; None: the middle one of the preset.
    warmup_steps, max_tokens, max_steps : int or None
    until_loss : float or None
    stop_when_level : bool
    decay_fraction : float
    decay_shape : {"linear", "1-sqrt"}
    optimizer : Optimizer
    precision : {"float32", "bfloat16"} or None
        None: as it suits the device; where none is known yet, float32.
    log_every, evaluations_per_doubling : int
        These as `Recipe` has them.
    """

    preset: str = "tiny"
    overrides: tuple[str, ...] = ()
    data: str = "stdlib"
    tokenizer: str = "bytes"
    seq_len: int | None = None
    val_tokens: int | None = None
    batch_sizes: tuple[int | BatchRange, ...] = ()
    seeds: int | None = None
    first_seed: int = 0
    lr: float | None = None
    lrs: tuple[float, ...] = ()
    lr_rule: LrRule = "none"
    lr_batch_tokens: int | None = None
    warmup_steps: int | None = None
    max_tokens: int | None = None
    max_steps: int | None = None
    until_loss: float | None = None
    stop_when_level: bool = True
    decay_fraction: float = 0.0
    decay_shape: DecayShape = "linear"
    optimizer: Optimizer = field(default_factory=Optimizer)
    precision: Precision | None = None
    log_every: int = 1
    evaluations_per_doubling: int | None = None


@dataclass(frozen=True)
class Plan:
    """The runs of a sweep, by batch size, learning rate and seed, and the data that they train on."""

    recipes: list[Recipe]
    data: Data
    warnings: list[str]


def plan_runs(options: GridOptions) -> Plan:
    """Make the recipe of every run of a sweep.

    Raises
    ------
    BadInputError
        If an option makes no sense, alone, together with others, or for the data.
    """
    preset = preset_named(options.preset)
    architecture = with_overrides(preset.architecture, options.overrides)
    options = _completed(options, preset)
    _check(options)
    seq_len = _known(options.seq_len)
    batch_sizes = _batch_sizes(options, preset)
    lrs = {size: _learning_rates(options, preset, size) for size in batch_sizes}
    seeds = _known(options.seeds)
    runs = seeds * sum(map(len, lrs.values()))
    if runs > _MOST_RUNS:
        raise BadInputError(f"these are {runs:,} runs. Give fewer --batch-sizes, --lrs or --seeds.")
    steps = {size: _planned_steps(options, size) for size in batch_sizes}

    val_tokens = _known(options.val_tokens)
    data = open_data(options.data, seq_len=seq_len, val_tokens=val_tokens, tokenizer=options.tokenizer)
    _check_data_size(data, batch_sizes[-1], seq_len, options.data)
    if not _chooses_vocabulary(options):
        architecture = replace(architecture, vocab_size=data.vocab_size)
    data.check_vocabulary(architecture.vocab_size)
    recipes = [
        Recipe(
            architecture=architecture,
            seq_len=seq_len,
            batch_sequences=size // seq_len,
            seed=seed,
            lr=lr,
            warmup_steps=_known(options.warmup_steps),
            steps=steps[size],
            data=data.fingerprint,
            val_tokens=val_tokens,
            decay_fraction=options.decay_fraction,
            decay_shape=options.decay_shape,
            until_loss=options.until_loss,
            stop_when_level=options.stop_when_level,
            optimizer=options.optimizer,
            precision=options.precision or "float32",
            log_every=options.log_every,
            evaluations_per_doubling=_known(options.evaluations_per_doubling),
        )
        for size in batch_sizes
        for lr in lrs[size]
        for seed in range(options.first_seed, options.first_seed + seeds)
    ]
    return Plan(recipes, data, [*data.warnings, *_epoch_warnings(recipes, data)])


_FROM_PRESET = ("warmup_steps", "max_tokens", "max_steps", "until_loss", "seeds", "evaluations_per_doubling")


def _completed(options: GridOptions, preset: Preset) -> GridOptions:
    """Take what the user left open from the preset."""
    seq_len = preset.seq_len if options.seq_len is None else options.seq_len
    completed = replace(options, seq_len=seq_len)
    if options.val_tokens is None and seq_len > 0:
        completed = replace(completed, val_tokens=math.ceil(preset.val_tokens / seq_len) * seq_len)
    for name in _FROM_PRESET:
        if getattr(options, name) is None:
            completed = replace(completed, **{name: getattr(preset, name)})
    return completed


def _known(value: int | None) -> int:
    """Return a setting that `_completed` has seen to."""
    assert value is not None
    return value


# What an option must be, in words and as a test; NaN passes none of these.
_Range = tuple[str, Callable[[float], bool]]
_ABOVE_ZERO: _Range = "above 0", lambda value: 0 < value < math.inf
_LR: _Range = "above 0, and at most 1,000", lambda value: 0 < value <= _LARGEST_LR
_COUNT: _Range = "above 0, and at most 10^15", lambda value: 0 < value <= 10**15  # beyond, indices overflow
_COUNT_OR_NONE: _Range = "from 0 to 10^15", lambda value: 0 <= value <= 10**15
_FEW: _Range = "from 1 to 1,000", lambda value: 1 <= value <= 1000
_NOT_NEGATIVE: _Range = "0 or above", lambda value: 0 <= value < math.inf
_SHARE: _Range = "from 0 to below 1", lambda value: 0 <= value < 1
_RANGES = {
    "seq_len": _COUNT,
    "val_tokens": _COUNT,
    "seeds": _ABOVE_ZERO,
    "first_seed": _COUNT_OR_NONE,
    "lr": _LR,
    "lr_batch_tokens": _COUNT,
    "warmup_steps": _COUNT_OR_NONE,
    "max_tokens": _COUNT,
    "max_steps": _COUNT,
    "until_loss": _NOT_NEGATIVE,
    "decay_fraction": _SHARE,
    "log_every": _COUNT,
    "evaluations_per_doubling": _FEW,
}
_OPTIMIZER_RANGES = {
    "beta1": _SHARE,
    "beta2": _SHARE,
    "weight_decay": _NOT_NEGATIVE,
    "clip_norm": _ABOVE_ZERO,
}
_OPTION_NAMES = {"lr_batch_tokens": "lr_batch"}


def _check(options: GridOptions) -> None:
    for settings, ranges in ((options, _RANGES), (options.optimizer, _OPTIMIZER_RANGES)):
        for name, (words, holds) in ranges.items():
            value = getattr(settings, name)
            if value is not None and not holds(value):
                option = _OPTION_NAMES.get(name, name).replace("_", "-")
                raise BadInputError(f"--{option} {value}: must be {words}.")
    words, holds = _LR
    if not all(map(holds, options.lrs)):
        raise BadInputError(f"--lrs {', '.join(map(str, options.lrs))}: must be {words}.")
    if options.lrs and (options.lr is not None or options.lr_rule != "none"):
        other = "--lr" if options.lr is not None else "--lr-rule"
        raise BadInputError(f"--lrs and {other} do not go together: give the learning rates one way.")
    if options.lr_batch_tokens is not None and options.lr_rule == "none":
        raise BadInputError(
            "--lr-batch says where an --lr-rule starts from: give --lr-rule sqrt or linear too."
        )


def _batch_sizes(options: GridOptions, preset: Preset) -> list[int]:
    """Return the batch sizes in tokens, ascending, each once."""
    seq_len = _known(options.seq_len)
    sizes: set[int] = set()
    for given in options.batch_sizes or preset.batch_tokens:
        sizes.update(given.sizes(seq_len) if isinstance(given, BatchRange) else [given])
    for size in sorted(sizes):
        if size <= 0 or size % seq_len:
            raise BadInputError(
                f"a batch of {size:,} tokens is not a multiple of the sequence length, {seq_len:,}. "
                f"{_nearest_multiples(size, seq_len)} --batch-sizes takes tokens, not sequences."
            )
    return sorted(sizes)


def _nearest_multiples(value: int, of: int) -> str:
    below, above = value // of * of, (value // of + 1) * of
    return f"The nearest are {below:,} and {above:,}." if below > 0 else f"The smallest is {above:,}."


def _learning_rates(options: GridOptions, preset: Preset, batch_tokens: int) -> list[float]:
    if options.lrs:
        return sorted(set(options.lrs))
    lr = preset.lr if options.lr is None else options.lr
    if options.lr_rule == "none":
        return [lr]
    middle = preset.batch_tokens[len(preset.batch_tokens) // 2]
    ratio = batch_tokens / (middle if options.lr_batch_tokens is None else options.lr_batch_tokens)
    lr *= math.sqrt(ratio) if options.lr_rule == "sqrt" else ratio
    lr = float(f"{lr:.{_LR_DIGITS}g}")
    if not 0 < lr <= _LARGEST_LR:
        raise BadInputError(
            f"--lr-rule {options.lr_rule}: a batch of {batch_tokens:,} tokens would have the learning rate {lr:g}. "
            "Choose another --lr or --lr-batch."
        )
    return [lr]


def _planned_steps(options: GridOptions, batch_tokens: int) -> int:
    """Return how many steps a run takes at most; some of them must be left for the stable phase."""
    max_tokens, max_steps = _known(options.max_tokens), _known(options.max_steps)
    warmup = _known(options.warmup_steps)
    steps = min(max_steps, max_tokens // batch_tokens)
    before_decay = 1 - Fraction(str(options.decay_fraction))  # exact, as the user wrote it
    if math.floor(steps * before_decay) > warmup:
        return steps
    needed = math.ceil((warmup + 1) / before_decay)
    if max_steps < needed:
        limit, raised = f"--max-steps {max_steps:,}", f"--max-steps to {needed:,}"
    else:
        limit, raised = f"--max-tokens {max_tokens:,}", f"--max-tokens to {needed * batch_tokens:,}"
    decay = " and the decay" if options.decay_fraction else ""
    raise BadInputError(
        f"a batch of {batch_tokens:,} tokens: {limit} leaves {steps:,} steps, none of them stable after "
        f"{warmup:,} steps of warmup{decay}. Raise {raised} or more, lower --warmup-steps, or leave this batch "
        "size out."
    )


def _check_data_size(data: Data, batch_tokens: int, seq_len: int, name: str) -> None:
    if data.train_sequences is not None and data.train_sequences * seq_len < batch_tokens:
        raise BadInputError(
            f"--data {name}: {data.train_sequences * seq_len:,} tokens to train on are less than one batch of "
            f"{batch_tokens:,}. Give more data, or smaller --batch-sizes."
        )


def _chooses_vocabulary(options: GridOptions) -> bool:
    return any(text.partition("=")[0].strip() == "vocab_size" for text in options.overrides)


def _epoch_warnings(recipes: list[Recipe], data: Data) -> Iterator[str]:
    if data.train_sequences is None:
        return
    longest = max(recipes, key=lambda recipe: recipe.steps * recipe.batch_sequences)
    epochs = longest.steps * longest.batch_sequences / data.train_sequences
    if epochs > 1:
        yield (
            f"runs may pass over the {data.train_sequences * longest.seq_len:,} tokens of training data up to "
            f"{epochs:.1f} times, and repeated data teach less. More data, or a smaller --max-tokens, avoid that."
        )
