# SPDX-License-Identifier: BSD-3-Clause
"""Losses of sharded fields, weighted by area, channel and level, normalised by the weight of the whole globe."""
from __future__ import annotations

import inspect
from typing import Any, Optional, Sequence

import torch

from ._domain import Domain, part_of
from ._errors import Error
from ._layer import NativeLayer
from ._library import uncompiled
from ._native import MatchCuts
from ._outside import note_loss

Numbers = Optional[Sequence[float]]


class _Loss(NativeLayer):
    """A loss over the cells of all ranks, in f64, with the same bits on all ranks. Gradients of parameters are partial sums.

    reduction: "mean" (sum w f / sum w), "sum" or "batchmean". per: "domain", "sample", "channel" or "level".
    row_weights: one for each row of the globe; channel_weights, level_weights: one for each.
    Cells whose target is NaN count nowhere. Errors: BadOption, ShapeMismatch, TooFewValues.
    """

    def __init__(self, domain: Domain, reduction: str = "mean", per: str = "domain", row_weights: Numbers = None,
                 channel_weights: Numbers = None, level_weights: Numbers = None, **more: Any) -> None:
        known = {name for kind in type(self).__mro__ if issubclass(kind, _Loss) for name in inspect.signature(kind.__init__).parameters}
        for name in more:
            if name not in known:
                known -= {"self", "domain", "weights", "more"}
                raise TypeError(f"{type(self).__name__} has no argument {name!r}; it has domain, {', '.join(sorted(known))}")
        super().__init__(domain, reduction=reduction, per=per, row_weights=row_weights, channel_weights=channel_weights,
                         level_weights=level_weights, **more)

    @uncompiled
    def forward(self, prediction: torch.Tensor, target: torch.Tensor, mask: Optional[torch.Tensor] = None) -> torch.Tensor:
        """Collective. prediction, target: this rank's shards; mask: a weight or truth value a cell.

        Targets and masks that are cut otherwise than the prediction are moved to its cuts.
        """
        return self._in_cuts("forward_masked", prediction, target, mask)

    def _in_cuts(self, method: str, prediction: torch.Tensor, *others: Optional[torch.Tensor]) -> torch.Tensor:
        match = self.__dict__.get("_match")
        if match is None:
            try:
                return note_loss(self._call(method, prediction, *others), self.domain)
            except Error as error:  # on all ranks alike, as all that decides here
                if error.rule != "ShapeMismatch":
                    raise
                parts = [None if x is None else part_of(x, self.domain) for x in (prediction, *others)]
                extents = {(p.rows.extent, p.columns.extent) for p in parts if p is not None}
                if len(extents) > 1 or len({(p.rows.sizes, p.columns.sizes) for p in parts if p is not None}) == 1:
                    raise
            match = [MatchCuts(self.domain) for _ in others]
        moved = [None if x is None else m(x.contiguous(), prediction.detach()) for m, x in zip(match, others)]
        result = note_loss(self._call(method, prediction, *moved), self.domain)
        self.__dict__["_match"] = match
        return result

    def reset_structure(self) -> None:
        self.__dict__.pop("_match", None)
        super().reset_structure()


class L1Loss(_Loss):
    """Absolute error. Arguments as `MSELoss`."""


class MSELoss(_Loss):
    """Squared error over the cells of all ranks, in f64, the same on all ranks. Gradients of parameters are partial sums.

    reduction: "mean" (sum w f / sum w), "sum" or "batchmean". per: "domain", "sample", "channel" or "level".
    row_weights: one for each row of the globe; channel_weights, level_weights: one for each.
    Cells whose target is NaN count nowhere. Errors: BadOption, ShapeMismatch, TooFewValues.
    """


class HuberLoss(_Loss):
    """Quadratic up to `delta`, then linear. Other arguments as `MSELoss`. Errors: BadOption for delta <= 0."""

    def __init__(self, domain: Domain, delta: float = 1.0, **weights: Any) -> None:
        super().__init__(domain, delta=delta, **weights)


class SmoothL1Loss(_Loss):
    """Huber loss divided by `beta`. Other arguments as `MSELoss`. Errors: BadOption for beta < 0."""

    def __init__(self, domain: Domain, beta: float = 1.0, **weights: Any) -> None:
        super().__init__(domain, beta=beta, **weights)


class BCEWithLogitsLoss(_Loss):
    """Binary cross-entropy of logits. positive_weights: one for each channel. Other arguments as `MSELoss`."""

    def __init__(self, domain: Domain, positive_weights: Numbers = None, **weights: Any) -> None:
        super().__init__(domain, positive_weights=positive_weights, **weights)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence of log-probabilities. log_target: as torch's. Other arguments as `MSELoss`."""

    def __init__(self, domain: Domain, log_target: bool = False, **weights: Any) -> None:
        super().__init__(domain, log_target=log_target, **weights)


class PoissonNLLLoss(_Loss):
    """Negative log-likelihood of counts. log_input, full, eps: as torch's. Other arguments as `MSELoss`."""

    def __init__(self, domain: Domain, log_input: bool = True, full: bool = False, eps: float = 1e-8, **weights: Any) -> None:
        super().__init__(domain, log_input=log_input, full=full, eps=eps, **weights)


class NLLLoss(_Loss):
    """Negative log-likelihood of classes: [batch, classes, ..., rows, columns], targets without the class axis.

    class_weights, ignore_index: as torch's. Other arguments as `MSELoss`. Errors: OutOfRange, BadOption.
    """

    def __init__(self, domain: Domain, class_weights: Numbers = None, ignore_index: int = -100, **weights: Any) -> None:
        super().__init__(domain, class_weights=class_weights, ignore_index=ignore_index, **weights)


class CrossEntropyLoss(_Loss):
    """`NLLLoss` of logits; targets are classes or probabilities. label_smoothing: as torch's."""

    def __init__(self, domain: Domain, class_weights: Numbers = None, ignore_index: int = -100, label_smoothing: float = 0.0,
                 **weights: Any) -> None:
        super().__init__(domain, class_weights=class_weights, ignore_index=ignore_index, label_smoothing=label_smoothing,
                         **weights)


class CRPSLoss(_Loss):
    """Continuous ranked probability score of an ensemble that each rank holds whole.

    ensemble_axis: of the prediction; the target lacks it. fairness: 1 fair, 0 standard. Other arguments as `MSELoss`.
    Errors: ShapeMismatch.
    """

    def __init__(self, domain: Domain, ensemble_axis: int = 1, fairness: float = 1.0, **weights: Any) -> None:
        super().__init__(domain, ensemble_axis=ensemble_axis, fairness=fairness, **weights)


class SpectralLoss(_Loss):
    """Error of the amplitudes of waves along each row. error: "squared" or "absolute". Takes no mask.

    wavenumber_weights: one for each zonal wavenumber. Other arguments as `MSELoss`. Errors: ShapeMismatch.
    """

    def __init__(self, domain: Domain, error: str = "squared", wavenumber_weights: Numbers = None, **weights: Any) -> None:
        super().__init__(domain, error=error, wavenumber_weights=wavenumber_weights, **weights)

    @uncompiled
    def forward(self, prediction: torch.Tensor, target: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
        """Collective. prediction, target: this rank's shards."""
        return self._in_cuts("forward", prediction, target)
