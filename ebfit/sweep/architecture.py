"""The shape of the model: its sizes, how many parameters and how much arithmetic they mean. No torch here."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from math import inf

from ebfit.errors import BadInputError

_SIZE_LIMIT = 2**31  # token ids are 32-bit integers, and no size of a model is near that
_MOST_PARAMETERS = 10**13


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder-only transformer.

    Attributes
    ----------
    n_layer : int
        Blocks of attention and feed-forward.
    d_model : int
        Width of the residual stream.
    n_head : int
        Query heads; each has width ``d_model / n_head``.
    n_kv_head : int
        Heads of keys and values, each shared by ``n_head / n_kv_head`` query heads (grouped-query attention).
    d_ff : int
        Width of the feed-forward layer.
    vocab_size : int
        Token ids are 0 to ``vocab_size - 1``.
    qk_norm : bool
        Whether queries and keys are normalised per head.
    rope_theta : float
        Base of the rotary embedding's wavelengths.

    Raises
    ------
    BadInputError
        If the sizes do not fit together, or no machine could hold the model.
    """

    n_layer: int
    d_model: int
    n_head: int
    n_kv_head: int
    d_ff: int
    vocab_size: int = 256
    qk_norm: bool = False
    rope_theta: float = 10_000.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, int) and not isinstance(value, bool) and not 0 < value < _SIZE_LIMIT:
                raise BadInputError(f"{field.name}={value}: must be above 0, and below 2^31.")
            if isinstance(value, float) and not 0 < value < inf:
                raise BadInputError(f"{field.name}={value}: must be above 0, and finite.")
        if self.d_model % self.n_head or (self.d_model // self.n_head) % 2:
            raise BadInputError(
                f"d_model={self.d_model} split over n_head={self.n_head} must give heads of an even width. "
                "Change one of them."
            )
        if self.n_head % self.n_kv_head:
            raise BadInputError(
                f"n_head={self.n_head} must be a multiple of n_kv_head={self.n_kv_head}. Change one of them."
            )
        if self.parameters > _MOST_PARAMETERS:
            raise BadInputError(
                f"a model of these sizes has {self.parameters:.1e} parameters, and at most 10^13 are taken. "
                "Lower n_layer, d_model, d_ff or vocab_size."
            )

    @property
    def d_head(self) -> int:
        """Width of one head."""
        return self.d_model // self.n_head

    @property
    def matrix_parameters(self) -> int:
        """Parameters of all weight matrices inside the blocks."""
        attention = 2 * self.d_model * (self.n_head + self.n_kv_head) * self.d_head
        feed_forward = 3 * self.d_model * self.d_ff
        return self.n_layer * (attention + feed_forward)

    @property
    def parameters_without_embeddings(self) -> int:
        """All parameters but those of the embedding, which is the output matrix too."""
        gains = self.n_layer * (2 * self.d_model + (2 * self.d_head if self.qk_norm else 0)) + self.d_model
        return self.matrix_parameters + gains

    @property
    def parameters(self) -> int:
        """All parameters."""
        return self.parameters_without_embeddings + self.vocab_size * self.d_model

    def flops_per_token(self, seq_len: int) -> float:
        """Floating point operations of one training token, forward and backward.

        Six per parameter that a token is multiplied with, the output matrix included, and ``12 n_layer d_model
        seq_len`` for the products of queries, keys and values, counted without the causal mask, as
        arXiv 2204.02311 (PaLM), appendix B, counts them for the model FLOPs utilisation.
        """
        matrices = self.matrix_parameters + self.vocab_size * self.d_model
        return 6.0 * matrices + 12.0 * self.n_layer * self.n_head * self.d_head * seq_len


def with_overrides(architecture: Architecture, overrides: Sequence[str]) -> Architecture:
    """Change sizes by texts such as ``n_layer=8``.

    Raises
    ------
    BadInputError
        If a text names no size, its value is of the wrong kind, or the sizes do not fit together.
    """
    changed: dict[str, int | float | bool] = {}
    for text in overrides:
        name, _, value = (part.strip() for part in text.partition("="))
        kinds = {field.name: type(getattr(architecture, field.name)) for field in fields(architecture)}
        if name not in kinds:
            raise BadInputError(f"--set {text}: write NAME=VALUE, where NAME is one of {', '.join(kinds)}.")
        changed[name] = _parsed(text, value, kinds[name])
    if "n_head" in changed and "n_kv_head" not in changed and architecture.n_kv_head == architecture.n_head:
        changed["n_kv_head"] = changed["n_head"]  # no grouping before, none after
    return replace(architecture, **changed)  # type: ignore[arg-type]


def _parsed(text: str, value: str, kind: type) -> int | float | bool:
    if kind is bool:
        if value.lower() in {"true", "1", "yes", "false", "0", "no"}:
            return value.lower() in {"true", "1", "yes"}
        raise BadInputError(f"--set {text}: give true or false.")
    try:
        return int(value.replace("_", "")) if kind is int else float(value)
    except ValueError:
        number = "a whole number" if kind is int else "a number"
        raise BadInputError(f"--set {text}: give {number}.") from None
