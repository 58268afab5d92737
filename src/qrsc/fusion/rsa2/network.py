"""RSA^2-Net: aligns frames corrected to one instant once more, and fuses them (the second half of the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.files.documents import shortened
from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.blocks import FIELD_SCALE, Pictures, start_at_zero
from qrsc.fusion.denoise import restored, visible_detail
from qrsc.fusion.mean import CALM_DISAGREEMENT, DISAGREEMENT
from qrsc.fusion.rsa2.convolutions import each_frame, fast
from qrsc.fusion.rsa2.decoder import Decoder
from qrsc.fusion.rsa2.encoder import TransformerEncoder, keep_scale
from qrsc.fusion.rsa2.heads import AdaCofHead, DirectHead
from qrsc.fusion.rsa2.unet3d import UNetEncoder
from qrsc.weights.architecture import require_sizes

EncoderName = Literal["transformer", "unet"]
TimeGrid = Literal["true", "unit", "none"]
ENCODERS: tuple[EncoderName, ...] = get_args(EncoderName)
TIME_GRIDS: tuple[TimeGrid, ...] = get_args(TimeGrid)


_LIMITS = {
    **dict.fromkeys(("stem", "widths", "features", "mask_width"), (1, 1024)),
    **dict.fromkeys(("heads", "window"), (1, 64)),
    **dict.fromkeys(("mlp_ratio", "taps"), (1, 16)),
    "depths": (0, 32),
}


@dataclass(frozen=True)
class Rsa2Options:
    """The network's architecture. Sizes are the paper's; the switches are those of its ablation study and ours.

    Attributes:
        stem, widths, depths, heads, window, mlp_ratio: of the encoder.
        features: channels of the decoder's output.
        taps: K, for the heads' K x K samples.
        encoder: `transformer`, or `unet` for convolutions only.
        fields: the correction fields are an input.
        adacof: fuse samples of the frames; otherwise predict colours from features.
        time_grid: `true` row times, those of a readout that fills the frame interval (`unit`, the paper's choice for
            BS-RSC), or `none`.
        validity: validity and time distance of every pixel are inputs, too; not in the paper.
        prior: masks are learned on top of the weights of `mean_fusion`; not in the paper.
        calm: for denoised frames (see `qrsc.fusion.denoise.calmed`); not in the paper. The removed detail is an input,
            and the network decides how much of it is restored.
        anchor: for frames that are not denoised: finish the result, see `qrsc.fusion.finish`. Results of denoised
            frames always get the colours of their mean.
        mask_width: channels of the hidden layer behind the masks; 1 for the paper's number of parameters.
    """

    stem: int = 16
    widths: tuple[int, ...] = (32, 64, 128, 192)
    depths: tuple[int, ...] = (2, 2, 6, 2)
    heads: tuple[int, ...] = (2, 4, 8, 16)
    window: int = 8
    mlp_ratio: int = 4
    features: int = 64
    taps: int = 5
    encoder: EncoderName = "transformer"
    fields: bool = True
    adacof: bool = True
    time_grid: TimeGrid = "true"
    validity: bool = True
    prior: bool = True
    mask_width: int = 25
    calm: bool = True
    anchor: bool = False

    def __post_init__(self) -> None:
        if self.encoder not in ENCODERS:
            raise ValueError(f"unknown encoder {shortened(self.encoder)}; choose one of {', '.join(ENCODERS)}.")
        if self.time_grid not in TIME_GRIDS:
            raise ValueError(f"unknown time grid {shortened(self.time_grid)}; choose one of {', '.join(TIME_GRIDS)}.")
        require_sizes(self, _LIMITS)
        if self.taps % 2 == 0:
            raise ValueError(f"taps must be odd; got {self.taps}.")

    @classmethod
    def published(cls) -> Rsa2Options:
        """The network as published."""
        return cls(validity=False, prior=False, mask_width=1, calm=False)


class Rsa2Network(nn.Module):
    """Fuse any number T >= 1 of frames; see the module's description."""

    def __init__(self, options: Rsa2Options | None = None) -> None:
        super().__init__()
        self.options = options = Rsa2Options() if options is None else options
        incoming = 3 + 2 * options.fields + 2 * options.validity + options.calm
        self.encoder: nn.Module
        if options.encoder == "unet":
            self.encoder = UNetEncoder(incoming, options.stem, options.widths)
        else:
            self.encoder = TransformerEncoder(
                incoming,
                options.stem,
                options.widths,
                options.depths,
                options.heads,
                options.window,
                options.mlp_ratio,
            )
        self.decoder = Decoder(options.widths, options.features)
        keep_scale(self)
        self.heads = nn.ModuleList(self._head(finest) for finest in (False, False, True))
        if options.calm:
            self.gates = nn.Conv2d(options.features, 2, 1)
            start_at_zero(self.gates)

    def forward(self, aligned: AlignedFrames, mean: Tensor | None = None) -> Tensor:
        """Fuse frames to `[B, 3, H, W]`; H and W are multiples of `qrsc.fusion.blocks.MULTIPLE`.

        Args:
            aligned: the frames, float.
            mean: `[B, 1, 3 or 5, 1, 1]` from `input_mean`; for tiles, that of the whole frames.
        """
        features = self.decoder(self.encoder(self._inputs(aligned, mean)))
        frames = self._restored(aligned, features[-1]) if self.options.calm else aligned.frames
        disagreement = CALM_DISAGREEMENT if self.options.calm else DISAGREEMENT
        valid = aligned.valid.to(frames)
        pictures = Pictures(frames, valid, self._time_grid(aligned), aligned.centre, disagreement)
        result: Tensor = self.heads[0](features[0], pictures.reduced(4))
        for head, found, factor in zip(list(self.heads)[1:], features[1:], (2, 1), strict=True):
            result = _doubled(result) + head(found, pictures.reduced(factor))
        return result

    def input_mean(self, aligned: AlignedFrames) -> Tensor:
        """The mean of each channel over frames and pixels, which is subtracted from the input."""
        return self._channels(aligned).mean((1, 3, 4), keepdim=True)

    def _restored(self, aligned: AlignedFrames, features: Tensor) -> Tensor:
        """Restore detail of the frames, `[B, T, 3, H, W]`, with gates from features `[B, C, T, H / 2, W / 2]`."""
        gates = _doubled(self.gates(each_frame(features)).to(aligned.frames.dtype))
        return restored(aligned, gates.reshape(*aligned.valid.shape[:2], *gates.shape[1:]))

    def _head(self, finest: bool) -> nn.Module:
        options = self.options
        if not options.adacof:
            return DirectHead(options.features)
        return AdaCofHead(
            options.features,
            options.taps,
            identity=finest,
            prior=options.prior,
            time_grid=options.time_grid != "none",
            mask_width=options.mask_width,
        )

    def _channels(self, aligned: AlignedFrames) -> Tensor:
        """Colours and fields, `[B, T, 3 or 5, H, W]`."""
        if not self.options.fields:
            return aligned.frames
        return torch.cat([aligned.frames, FIELD_SCALE * aligned.correction_fields], 2)

    def _inputs(self, aligned: AlignedFrames, mean: Tensor | None) -> Tensor:
        """`[B, C, T, H, W]`."""
        channels = self._channels(aligned)
        parts = [channels - (channels.mean((1, 3, 4), keepdim=True) if mean is None else mean)]
        if self.options.validity:
            parts += [aligned.valid.to(channels), aligned.time_distance]
        if self.options.calm:
            parts.append(visible_detail(aligned))
        inputs = torch.cat(parts, 2).transpose(1, 2)
        if not inputs.is_cuda or fast(inputs, inputs.shape[2]):
            return inputs
        # The layout that convolutions prefer on a GPU; tokens for attention are then a view.
        return inputs.contiguous(memory_format=torch.channels_last_3d)

    def _time_grid(self, aligned: AlignedFrames) -> Tensor:
        """Time distances `[B, T, 1, H, W]`."""
        if self.options.time_grid != "unit":
            return aligned.time_distance
        return unit_time_distance(aligned)


def unit_time_distance(aligned: AlignedFrames) -> Tensor:
    """Time distances as if the readout filled the frame interval, `[B, T, 1, H, W]`.

    Let s be the signed time from the centre frame's row to the instant; frame i is then `|c - i + s|` away. s follows
    from the distances of two neighbours, and `s / gamma` is its value for a readout ratio of 1.
    """
    if aligned.gamma is None:
        raise ValueError("the time grid 'unit' needs the gamma of the aligned frames; it is None.")
    distance, centre = aligned.time_distance, aligned.centre
    count = distance.shape[1]
    if count == 1:
        return distance
    other = centre - 1 if centre > 0 else centre + 1
    step = float(centre - other)
    signed = (distance[:, other].square() - distance[:, centre].square() - 1.0) / (2.0 * step)
    gamma = torch.as_tensor(aligned.gamma, dtype=distance.dtype, device=distance.device).reshape(-1, 1, 1, 1)
    scaled = signed / gamma.clamp_min(1e-3)
    return torch.stack([(centre - i + scaled).abs() for i in range(count)], 1)


def _doubled(picture: Tensor) -> Tensor:
    return F.interpolate(picture, scale_factor=2.0, mode="bilinear", align_corners=False)
