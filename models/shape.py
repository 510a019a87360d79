"""The shape of a decoder, as `models.architecture` reads it from a config.json."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Experts:
    """The mixture of experts of a model's sparse layers.

    Attributes:
        count: Routed experts a layer.
        per_token: Routed experts that one token uses.
        intermediate: Width of one routed expert.
        shared_intermediate: Total width of the experts that every token uses, 0 for none.
        layers: How many layers have experts; the others are dense.
    """

    count: int
    per_token: int
    intermediate: int
    shared_intermediate: int
    layers: int


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: the cache holds one compressed vector a token.

    Attributes:
        q_rank: Rank of the query compression, None where queries are not compressed.
        kv_rank: Rank of the key and value compression.
        rope_dim: Head part that carries the rotary position.
        nope_dim: Head part that does not.
        v_dim: Width of one value head.
    """

    q_rank: int | None
    kv_rank: int
    rope_dim: int
    nope_dim: int
    v_dim: int


@dataclass(frozen=True)
class Architecture:
    """Shape of a decoder, read from its config.json.

    Attributes:
        model_type: Family as the config names it.
        hidden: Width of the residual stream, elements.
        layers: Decoder layers (blocks, for block-wise hybrids).
        heads: Query heads.
        kv_heads: Key-value heads; for latent attention the config's figure, which means nothing.
        head_dim: Elements of one head.
        intermediate: Width of a dense layer's MLP.
        vocab: Rows of the embedding.
        tied_embeddings: Whether the vocabulary head is the embedding.
        max_positions: Longest context in tokens, None where the config does not say.
        dtype_bytes: Bytes of one activation and of one unquantised weight.
        weight_bits: Bits of one quantised weight, None where weights are not quantised.
        gated_mlp: Whether the MLP has three matrices (gate, up, down) instead of two.
        qkv_bias: Whether query, key and value projections have a bias.
        qk_norm: Whether queries and keys are normalised a head.
        layer_calls: All-reduces of each layer, or None where a person entered the total.
        entered_calls: The total that a person entered, without the embedding's.
        experts: Mixture of experts, None for a dense model.
        latent: Latent attention, None for grouped-query attention.
        attention_layers: Layers with a key-value cache that grows with the context.
        sliding_window: Tokens that windowed layers look back, None where none does.
    """

    model_type: str
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied_embeddings: bool
    max_positions: int | None
    dtype_bytes: int
    weight_bits: float | None
    gated_mlp: bool
    qkv_bias: bool
    qk_norm: bool
    layer_calls: tuple[int, ...] | None
    entered_calls: int | None
    experts: Experts | None
    latent: LatentAttention | None
    attention_layers: int
    sliding_window: int | None
