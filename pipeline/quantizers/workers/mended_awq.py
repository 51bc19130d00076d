"""AutoAWQ 0.2.9's quantizer with a fault mended and its two slow steps made fast.

The fault: before trying scales it keeps the weights with ``.cpu()``, which on a CPU makes no copy, so the first trial
changes what is to be restored. Nothing fails; the model is ruined.

The slow steps: each of twenty strengths of scaling is tried on all calibration text, where a few conversations decide
that as well (as in ``sampled_awq.py``). And the search for the best clipping multiplies every output channel with every
token for every trial; the same error follows from each group's Gram matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from awq.quantize.quantizer import AwqQuantizer

_ROWS = 256
"""Output channels at a time."""


class MendedQuantizer(AwqQuantizer):
    """:class:`AwqQuantizer` that copies the weights it keeps, and searches clipping by Gram matrices.

    ``search_blocks``: so many blocks of calibration text on which scales are tried; None: all.
    """

    search_blocks: int | None = None

    def _compute_best_scale(
        self, x: Any, w_mean: Any, x_mean: Any, module2inspect: Any, linears: Any, output: Any, *kwargs: Any
    ) -> Any:
        some = slice(self.search_blocks)
        hook = module2inspect.register_state_dict_post_hook(_copy)
        try:
            return super()._compute_best_scale(x[some], w_mean, x_mean, module2inspect, linears, output[some], *kwargs)
        finally:
            hook.remove()

    @torch.no_grad()
    def _compute_best_clip(
        self,
        w: torch.Tensor,
        input_feat: torch.Tensor,
        n_grid: int = 20,
        max_shrink: float = 0.5,
        n_sample_token: int = 512,
    ) -> torch.Tensor:
        """The greatest magnitude to keep in each group of each row: [rows, groups, 1].

        As in AutoAWQ, of the first ten twentieths of shrinking the one with the least mean squared error of the
        group's product with its inputs, over about ``n_sample_token`` tokens spread evenly.
        """
        size = self.group_size if self.group_size > 0 else w.shape[1]
        tokens = input_feat.reshape(-1, input_feat.shape[-1])
        tokens = tokens[:: max(1, len(tokens) // n_sample_token)].to(w.device).float()
        grouped = tokens.reshape(len(tokens), -1, size).transpose(0, 1)  # [groups, tokens, size]
        gram = grouped.transpose(1, 2) @ grouped / len(tokens)
        best = []
        for part in w.split(_ROWS):
            rows = part.reshape(len(part), -1, size)
            greatest = rows.abs().amax(dim=-1, keepdim=True)
            chosen, least = greatest.clone(), torch.full_like(greatest, torch.inf, dtype=torch.float32)
            for step in range(int(max_shrink * n_grid)):
                bound = greatest * (1 - step / n_grid)
                clipped = torch.clamp(rows, -bound, bound)
                rounded = self.pseudo_quantize_tensor(clipped.view_as(part))[0].view_as(rows)
                change = (rounded - rows).float().transpose(0, 1)  # [groups, rows, size]
                error = ((change @ gram) * change).sum(dim=-1).t().unsqueeze(-1)
                better = error < least
                least[better], chosen[better] = error[better], bound[better]
            best.append(chosen)
        return torch.cat(best)


def _copy(_module: Any, state: dict[str, torch.Tensor], *_: Any) -> None:
    for name, tensor in state.items():
        state[name] = tensor.clone()
