"""The model that is trained: a decoder-only transformer of the Llama and Qwen kind.

Notable in it: RMSNorm before each half of a block, rotary embeddings, a SwiGLU feed-forward layer, grouped-query
attention and normalised queries and keys where asked for, no biases, one matrix for embedding and output, torch's own
scaled-dot-product attention. Sizes are those of `Architecture`. Nothing is random but the initial weights.
"""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ebfit.sweep.architecture import Architecture

_NORM_EPS = 1e-6
_EMBEDDING_STD = 0.02


class RMSNorm(nn.Module):
    """Root-mean-square normalisation with a gain per channel (arXiv 1910.07467)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        """Return ``x``, its last dimension normalised."""
        return functional.rms_norm(x, self.gain.shape, self.gain.to(x.dtype), _NORM_EPS)


def rotary_tables(seq_len: int, d_head: int, theta: float) -> tuple[Tensor, Tensor]:
    """Return cosine and sine of every position and frequency, each of shape (seq_len, d_head / 2)."""
    frequencies = theta ** (-torch.arange(0, d_head, 2, dtype=torch.float64) / d_head)
    angles = torch.outer(torch.arange(seq_len, dtype=torch.float64), frequencies)
    return angles.cos().float(), angles.sin().float()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pairs (i, i + d_head / 2) of each head by its position's angles (arXiv 2104.09864).

    ``x`` has shape (batch, head, position, d_head).
    """
    first, second = x.chunk(2, dim=-1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1).to(x.dtype)


class Attention(nn.Module):
    """Causal self-attention; query heads in groups share keys and values (arXiv 2305.13245)."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__()
        self.n_head, self.n_kv_head, self.d_head = sizes.n_head, sizes.n_kv_head, sizes.d_head
        heads = self.n_head + 2 * self.n_kv_head
        self.query_key_value = nn.Linear(sizes.d_model, heads * self.d_head, bias=False)
        self.out = nn.Linear(self.n_head * self.d_head, sizes.d_model, bias=False)
        self.query_norm = RMSNorm(self.d_head) if sizes.qk_norm else nn.Identity()
        self.key_norm = RMSNorm(self.d_head) if sizes.qk_norm else nn.Identity()

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return what each position takes from those up to it; ``x`` has shape (batch, length, d_model)."""
        batch, length, _ = x.shape
        heads = self.query_key_value(x).view(batch, length, -1, self.d_head).transpose(1, 2)
        query, key, value = heads.split((self.n_head, self.n_kv_head, self.n_kv_head), dim=1)
        query = rotate(self.query_norm(query), cos, sin)
        key = rotate(self.key_norm(key), cos, sin)
        mixed = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=self.n_kv_head != self.n_head
        )
        return self.out(mixed.transpose(1, 2).reshape(batch, length, -1))


class FeedForward(nn.Module):
    """The SwiGLU layer (arXiv 2002.05202)."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__()
        self.gate_and_up = nn.Linear(sizes.d_model, 2 * sizes.d_ff, bias=False)
        self.down = nn.Linear(sizes.d_ff, sizes.d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return what each position makes of itself; ``x`` has shape (batch, length, d_model)."""
        gate, up = self.gate_and_up(x).chunk(2, dim=-1)
        return self.down(functional.silu(gate) * up)


class Block(nn.Module):
    """Attention, then feed-forward, each normalised first and added to the residual stream."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(sizes.d_model), Attention(sizes)
        self.feed_forward_norm, self.feed_forward = RMSNorm(sizes.d_model), FeedForward(sizes)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """Return the residual stream after the block; ``x`` has shape (batch, length, d_model)."""
        x = x + self.attention(self.attention_norm(x), cos, sin)
        return x + self.feed_forward(self.feed_forward_norm(x))


class Model(nn.Module):
    """A decoder-only transformer.

    Parameters
    ----------
    sizes : Architecture
    seq_len : int
        The longest input, in tokens.
    """

    def __init__(self, sizes: Architecture, seq_len: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(sizes.vocab_size, sizes.d_model)
        self.blocks = nn.ModuleList(Block(sizes) for _ in range(sizes.n_layer))
        self.norm = RMSNorm(sizes.d_model)
        cos, sin = rotary_tables(seq_len, sizes.d_head, sizes.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def initialise(self, seed: int) -> None:
        """Draw the weights: normal, so that each matrix keeps the size of what goes through it.

        What writes into the residual stream is smaller the deeper the model is, and the embedding is small, as
        it is the output matrix too. Drawn on the CPU, so the same on every device.
        """
        generator = torch.Generator().manual_seed(seed)
        for name, weight in self.named_parameters():
            if weight.ndim < 2:
                continue
            std = _EMBEDDING_STD if name == "embedding.weight" else weight.shape[1] ** -0.5
            if name.endswith(("out.weight", "down.weight")):
                std /= math.sqrt(2 * len(self.blocks))
            with torch.no_grad():
                weight.copy_(torch.empty(weight.shape).normal_(0.0, std, generator=generator))

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits of the next token, shape (batch, length, vocab_size), of tokens (batch, length)."""
        length = tokens.shape[1]
        cos, sin = self.cos[:length], self.sin[:length]  # type: ignore[index]
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, cos, sin)
        return functional.linear(self.norm(x), self.embedding.weight)

    def loss(self, sequences: Tensor) -> Tensor:
        """Return the mean loss of predicting each token from those before it, in nats per token.

        ``sequences`` has shape (batch, length + 1): every sequence holds one token more than it has predictions.
        """
        logits = self(sequences[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1).float(), sequences[:, 1:].flatten())
