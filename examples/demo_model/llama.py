"""A LoRA forward pass of a Llama model over conversations that share their beginning, made for a CPU.

All conversations of a batch begin with the same system message and tools. These ``P`` tokens are computed once; the
``B`` continuations, padded to ``T`` tokens, attend to them and to themselves. Everything is laid out as one matrix of
``P + B * T`` tokens, so that every linear layer is a single large BF16 product. The frozen weights get no gradient,
and the adapter's low-rank products are added in place.

``tests/integration/test_demo_model.py`` compares loss and gradients with transformers and peft.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

LINEARS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
HEAD_CHUNK = 1024
"""Tokens whose logits are held at once: 1,024 of 49,152 in float32 are 200 MB."""


class _LoraLinear(Function):
    """``x W' + scale (x A') B'``; gradients for ``x``, ``A`` and ``B`` only: 4 instead of 6 products of W's size."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, a: Tensor, b: Tensor, scale: float) -> Tensor:
        low = x @ a.t()
        ctx.save_for_backward(x, weight, a, b, low)
        ctx.scale = scale
        return torch.mm(x, weight.t()).addmm_(low, b.t(), alpha=scale)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (dy,) = gradients
        x, weight, a, b, low = ctx.saved_tensors
        d_low = (dy @ b).mul_(ctx.scale)
        dx = torch.mm(dy, weight).addmm_(d_low, a)
        return dx, None, d_low.t() @ x, (dy.t() @ low).mul_(ctx.scale), None


class _RmsNorm(Function):
    """Root mean square norm in float32 with a frozen weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        wide = x.to(torch.float32, copy=True)
        inverse = wide.pow(2).mean(-1, keepdim=True).add_(eps).rsqrt_()
        normed = wide.mul_(inverse).to(x.dtype)
        ctx.save_for_backward(normed, weight, inverse)
        return normed * weight

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        normed, weight, inverse = ctx.saved_tensors
        dn = (gradients[0] * weight).float()
        wide = normed.to(torch.float32, copy=True)
        dn.sub_(wide.mul_((dn * wide).mean(-1, keepdim=True))).mul_(inverse)
        return dn.to(normed.dtype), None, None


class _SwiGlu(Function):
    """``silu(gate) * up`` that keeps only its inputs."""

    @staticmethod
    def forward(ctx: Any, gate: Tensor, up: Tensor) -> Tensor:
        ctx.save_for_backward(gate, up)
        return torch.nn.functional.silu(gate).mul_(up)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        gate, up = ctx.saved_tensors
        (dy,) = gradients
        silu = torch.nn.functional.silu(gate)
        return torch.ops.aten.silu_backward(dy * up, gate), silu.mul_(dy)


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, -1)
    return torch.cat((first * cos - second * sin, second * cos + first * sin), -1)


class _Rope(Function):
    """Rotary positions; the gradient turns back by the same angle."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _rotate(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        cos, sin = ctx.saved_tensors
        return _rotate(gradients[0], cos, -sin), None, None


_flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_flash_backward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward


class _SharedPrefixAttention(Function):
    """Causal attention of a prefix and of rows that continue it.

    The two parts of a row's attention are merged by their log-sum-exp. A flash backward pass needs only the merged
    output and the merged log-sum-exp, so each part's gradient comes from the stock kernel.
    Shapes: q ``[P + B*T, H, D]``, k and v ``[P + B*T, H_kv, D]``.
    """

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, prefix: int, rows: int) -> Tensor:
        parts = _parts(q, k, v, prefix, rows)
        out = torch.empty_like(q)
        kept: list[Tensor] = []
        if prefix:
            qp, kp, vp = parts["prefix"]
            o, lse = _flash(qp, kp, vp, 0.0, True)
            out[:prefix] = o[0].transpose(0, 1)
            kept += [o, lse]
        qr, kr, vr = parts["own"]
        o, lse = _flash(qr, kr, vr, 0.0, True)
        if prefix:
            qa, ka, va = parts["cross"]
            oa, la = _flash(qa, ka, va, 0.0, False)
            group = q.shape[1] // k.shape[1]
            oa, la = _unfold(oa, rows, group), _unfold(la.unsqueeze(-1), rows, group).squeeze(-1)
            merged = torch.logaddexp(lse, la)
            o = o * (lse - merged).exp().unsqueeze(-1).to(o.dtype) + oa * (la - merged).exp().unsqueeze(-1).to(o.dtype)
            lse = merged
        kept += [o, lse]
        out[prefix:] = o.transpose(1, 2).reshape(-1, *q.shape[1:])
        ctx.save_for_backward(q, k, v, *kept)
        ctx.sizes = prefix, rows
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        q, k, v, *kept = ctx.saved_tensors
        prefix, rows = ctx.sizes
        parts = _parts(q, k, v, prefix, rows)
        heads, kv_heads, size = q.shape[1], k.shape[1], q.shape[2]
        group = heads // kv_heads
        dout = gradients[0]
        o, lse = kept[-2:]
        do = dout[prefix:].view(rows, -1, heads, size).transpose(1, 2).contiguous()
        qr, kr, vr = parts["own"]
        dq_rows, dk_rows, dv_rows = _flash_backward(do, qr, kr, vr, o, lse, 0.0, True)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)

        def ungrouped(d: Tensor) -> Tensor:  # [B, H, T, D] -> [B*T, H_kv, D]
            return d.view(d.shape[0], kv_heads, group, -1, size).sum(2).transpose(1, 2).reshape(-1, kv_heads, size)

        dk[prefix:], dv[prefix:] = ungrouped(dk_rows), ungrouped(dv_rows)
        if prefix:
            qp, kp, vp = parts["prefix"]
            dop = dout[:prefix].transpose(0, 1).unsqueeze(0).contiguous()
            dqp, dkp, dvp = _flash_backward(dop, qp, kp, vp, kept[0], kept[1], 0.0, True)
            qa, ka, va = parts["cross"]
            lse_a = _fold(lse.unsqueeze(-1), kv_heads).squeeze(-1).contiguous()
            dqa, dka, dva = _flash_backward(_fold(do, kv_heads), qa, ka, va, _fold(o, kv_heads), lse_a, 0.0, False)
            dq_rows = dq_rows + _unfold(dqa, rows, group)
            dq[:prefix] = dqp[0].transpose(0, 1)
            dk[:prefix] = ungrouped(dkp) + dka[0].transpose(0, 1)
            dv[:prefix] = ungrouped(dvp) + dva[0].transpose(0, 1)
        dq[prefix:] = dq_rows.transpose(1, 2).reshape(-1, heads, size)
        return dq, dk, dv, None, None


def _fold(x: Tensor, kv_heads: int) -> Tensor:
    """``[B, H, T, D]`` to ``[1, H_kv, group * B * T, D]``: the query heads of one key head become further queries."""
    rows, heads, length, size = x.shape
    return x.view(rows, kv_heads, heads // kv_heads, length, size).permute(1, 2, 0, 3, 4).reshape(1, kv_heads, -1, size)


def _unfold(x: Tensor, rows: int, group: int) -> Tensor:
    """The inverse of :func:`_fold`."""
    _, kv_heads, _, size = x.shape
    return x.view(kv_heads, group, rows, -1, size).permute(2, 0, 1, 3, 4).reshape(rows, kv_heads * group, -1, size)


def _parts(q: Tensor, k: Tensor, v: Tensor, prefix: int, rows: int) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    group = q.shape[1] // k.shape[1]

    def row_shape(x: Tensor) -> Tensor:
        return x[prefix:].view(rows, -1, *x.shape[1:]).transpose(1, 2).contiguous()

    qr = row_shape(q)
    own = (qr, row_shape(k).repeat_interleave(group, 1), row_shape(v).repeat_interleave(group, 1))
    if not prefix:
        return {"own": own}
    qp, kp, vp = (x[:prefix].transpose(0, 1).unsqueeze(0).contiguous() for x in (q, k, v))
    return {
        "own": own,
        "prefix": (qp, kp.repeat_interleave(group, 1), vp.repeat_interleave(group, 1)),
        "cross": (_fold(qr, k.shape[1]), kp, vp),
    }


class _HeadLoss(Function):
    """Weighted mean cross-entropy of ``x W'``; gradients for ``x`` are formed chunk by chunk in the forward pass."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, targets: Tensor, shares: Tensor) -> Tensor:
        dx = torch.empty_like(x)
        total = torch.zeros((), dtype=torch.float64)
        for start in range(0, len(x), HEAD_CHUNK):
            chunk = slice(start, start + HEAD_CHUNK)
            part, target, share = x[chunk], targets[chunk], shares[chunk]
            logits = (part @ weight.t()).float()
            log_z = logits.logsumexp(-1, keepdim=True)
            total += (share * (log_z - logits.gather(1, target[:, None])).squeeze(-1)).double().sum()
            probabilities = logits.sub_(log_z).exp_()
            probabilities[torch.arange(len(target)), target] -= 1
            dx[chunk] = probabilities.mul_(share[:, None]).to(x.dtype) @ weight
        ctx.save_for_backward(dx)
        return total.float()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (dx,) = ctx.saved_tensors
        return dx * gradients[0].to(dx.dtype), None, None, None


@dataclass(frozen=True)
class Batch:
    """Rows that continue one prefix.

    ``prefix``: token ids ``[P]``; ``rows``: ``[B, T]``, padded; ``weights``: ``[B, T]``, what a token counts in the
    loss, 0 where it is not to be learnt.
    """

    prefix: Tensor
    rows: Tensor
    weights: Tensor


class LoraLlama:
    """A frozen Llama checkpoint with a trainable adapter on every linear layer of its blocks.

    :param state: the checkpoint's tensors by name.
    :param config: its ``config.json``.
    :param dtype: of weights and activations; the adapter itself is float32.
    :param frozen: so many of the first layers keep their adapter as it is, which saves their backward pass.
    """

    def __init__(
        self,
        state: dict[str, Tensor],
        config: dict[str, Any],
        *,
        rank: int,
        scale: float,
        seed: int,
        dtype: torch.dtype = torch.bfloat16,
        frozen: int = 0,
    ) -> None:
        self.state = {name: tensor.to(dtype) for name, tensor in state.items()}
        self.dtype = dtype
        self.config = config
        self.scale = scale
        self.layers = int(config["num_hidden_layers"])
        self.head_size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        self.eps = float(config["rms_norm_eps"])
        rope = config.get("rope_parameters") or config
        self.theta = float(rope["rope_theta"])
        torch.manual_seed(seed)
        self.adapter: dict[str, tuple[Tensor, Tensor]] = {}
        for name, weight in self.state.items():
            if name.split(".")[-2] in LINEARS:
                a = torch.empty(rank, weight.shape[1])
                torch.nn.init.kaiming_uniform_(a, a=5**0.5)
                b = torch.zeros(weight.shape[0], rank)
                learns = int(name.split(".")[2]) >= frozen
                self.adapter[name.removesuffix(".weight")] = (a.requires_grad_(learns), b.requires_grad_(learns))

    def parameters(self) -> list[Tensor]:
        """The trainable tensors, float32."""
        return [tensor for pair in self.adapter.values() for tensor in pair if tensor.requires_grad]

    def loss(self, batch: Batch) -> Tensor:
        """Weighted mean cross-entropy of the tokens of a batch."""
        prefix, (rows, length) = len(batch.prefix), batch.rows.shape
        hidden = self._hidden(batch)[prefix:].view(rows, length, -1)
        targets, weights = batch.rows[:, 1:], batch.weights[:, 1:].float()
        counts = weights > 0
        shares = weights[counts] / weights.sum()
        return _HeadLoss.apply(hidden[:, :-1][counts], self._head(), targets[counts], shares)

    def logits(self, batch: Batch) -> Tensor:
        """Logits ``[P + B*T, vocabulary]`` of a batch."""
        return self._hidden(batch) @ self._head().t()

    def _head(self) -> Tensor:
        return self.state.get("lm_head.weight", self.state["model.embed_tokens.weight"])

    def _hidden(self, batch: Batch) -> Tensor:
        prefix, (rows, length) = len(batch.prefix), batch.rows.shape
        tokens = torch.cat((batch.prefix, batch.rows.reshape(-1)))
        positions = torch.cat((torch.arange(prefix), torch.arange(prefix, prefix + length).repeat(rows)))
        frequencies = self.theta ** (-torch.arange(0, self.head_size, 2).float() / self.head_size)
        angles = (positions[:, None].float() * frequencies)[:, None]
        cos, sin = angles.cos().to(self.dtype), angles.sin().to(self.dtype)
        x = self.state["model.embed_tokens.weight"][tokens]
        for layer in range(self.layers):
            name = f"model.layers.{layer}."
            h = _RmsNorm.apply(x, self.state[name + "input_layernorm.weight"], self.eps)
            q, k, v = (self._linear(h, f"{name}self_attn.{part}_proj") for part in "qkv")
            q, k, v = (t.view(len(t), -1, self.head_size) for t in (q, k, v))
            mixed = _SharedPrefixAttention.apply(_Rope.apply(q, cos, sin), _Rope.apply(k, cos, sin), v, prefix, rows)
            x = x + self._linear(mixed.reshape(len(x), -1), name + "self_attn.o_proj")
            h = _RmsNorm.apply(x, self.state[name + "post_attention_layernorm.weight"], self.eps)
            gated = _SwiGlu.apply(self._linear(h, name + "mlp.gate_proj"), self._linear(h, name + "mlp.up_proj"))
            x = x + self._linear(gated, name + "mlp.down_proj")
        return _RmsNorm.apply(x, self.state["model.norm.weight"], self.eps)

    def _linear(self, x: Tensor, name: str) -> Tensor:
        a, b = self.adapter[name]
        weight = self.state[name + ".weight"]
        return _LoraLinear.apply(x, weight, a.to(self.dtype), b.to(self.dtype), self.scale)
