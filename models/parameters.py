"""How many weights a model has, and how many of them one token uses.

Source: the matrices of the public model code of each family; the counts agree with the models'
published checkpoints (tests hold Qwen2.5 and Llama 3 to the last weight).
"""

from models.shape import Architecture, Experts


def _attention(arch: Architecture) -> int:
    if arch.latent is not None:
        latent = arch.latent
        q_width = arch.heads * (latent.nope_dim + latent.rope_dim)
        if latent.q_rank is None:
            query = arch.hidden * q_width
        else:
            query = arch.hidden * latent.q_rank + latent.q_rank * q_width + latent.q_rank
        down = arch.hidden * (latent.kv_rank + latent.rope_dim) + latent.kv_rank
        up = latent.kv_rank * arch.heads * (latent.nope_dim + latent.v_dim)
        return query + down + up + arch.heads * latent.v_dim * arch.hidden
    q_width = arch.heads * arch.head_dim
    kv_width = 2 * arch.kv_heads * arch.head_dim
    count = arch.hidden * (q_width + kv_width) + q_width * arch.hidden
    if arch.qkv_bias:
        count += q_width + kv_width
    if arch.qk_norm:
        count += 2 * arch.head_dim
    return count


def _mlp(arch: Architecture, width: int) -> int:
    return (3 if arch.gated_mlp else 2) * arch.hidden * width


def _sparse(arch: Architecture, experts: Experts, used: int) -> int:
    router = arch.hidden * experts.count
    return (
        router + used * _mlp(arch, experts.intermediate) + _mlp(arch, experts.shared_intermediate)
    )


def _total(arch: Architecture, experts_used: int | None) -> int | None:
    """Weights with ``experts_used`` experts a layer (None: all of them)."""
    if arch.attention_layers != arch.layers or arch.layer_calls is None:
        return None  # Mamba, linear attention, no-op blocks, unknown family: not counted here
    if any(calls != arch.layer_calls[0] for calls in arch.layer_calls):
        return None
    body = arch.layers * (_attention(arch) + 2 * arch.hidden)
    sparse_layers = 0
    if arch.experts is not None:
        sparse_layers = arch.experts.layers
        used = arch.experts.count if experts_used is None else experts_used
        body += sparse_layers * _sparse(arch, arch.experts, used)
    body += (arch.layers - sparse_layers) * _mlp(arch, arch.intermediate)
    embeddings = arch.vocab * arch.hidden * (1 if arch.tied_embeddings else 2)
    return body + embeddings + arch.hidden


def parameter_count(arch: Architecture) -> int | None:
    """Weights of the whole model, embeddings counted once where tied.

    Returns:
        The count, or None where the family has layers that are not counted here (Mamba, linear
        attention, no-op blocks, an unknown family).
    """
    return _total(arch, None)


def active_parameter_count(arch: Architecture) -> int | None:
    """Weights that one token passes through: all of them, or with experts only the chosen ones.

    Returns:
        The count, or None under the same conditions as `parameter_count`.
    """
    return _total(arch, arch.experts.per_token if arch.experts is not None else None)
