"""RSA^2-Net: several frames corrected to one instant, aligned once more and fused (the paper's second half)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from qrsc.fusion.aligned import AlignedFrames
from qrsc.fusion.coherent import restored, visible_detail
from qrsc.fusion.mean import CALM_DISAGREEMENT, DISAGREEMENT
from qrsc.fusion.rsa2.convolutions import each_frame, fast
from qrsc.fusion.rsa2.decoder import Decoder
from qrsc.fusion.rsa2.encoder import TransformerEncoder, keep_scale, start_at_zero
from qrsc.fusion.rsa2.heads import AdaCofHead, DirectHead, Pictures
from qrsc.fusion.rsa2.unet3d import UNetEncoder

MULTIPLE = 16  # both sides of the pictures
FIELD_SCALE = 0.05  # correction fields are tens of pixels, colours are 1; to the network they should be alike

EncoderName = Literal["transformer", "unet"]
TimeGrid = Literal["true", "unit", "none"]
ENCODERS: tuple[EncoderName, ...] = get_args(EncoderName)
TIME_GRIDS: tuple[TimeGrid, ...] = get_args(TimeGrid)


@dataclass(frozen=True)
class Rsa2Options:
    """How the network is built. Sizes are the paper's; the switches are those of its ablation study and ours.

    Attributes:
        stem, widths, depths, heads, window, mlp_ratio: of the encoder.
        features: channels that the heads get.
        taps: K of the heads' K x K samples.
        encoder: `transformer`, or `unet` for convolutions alone.
        fields: look at the correction fields.
        adacof: fuse samples of the frames; otherwise make colours from features alone.
        time_grid: `true` row times, those of a readout that fills the frame interval (`unit`, the paper's choice for
            BS-RSC), or `none`.
        validity: look also at validity and time distance of every pixel, which the paper does not.
        prior: start masks from the weights of `mean_fusion`, which the paper does not.
        calm: for frames whose detail was weighed (see `qrsc.fusion.coherent.calmed`), which the paper does not do: look
            also at what was taken away, and say how much of it comes back.
        mask_width: channels that masks are made from; 1 for the paper's number of parameters.
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

    def __post_init__(self) -> None:
        if self.encoder not in ENCODERS:
            raise ValueError(f"unknown encoder {self.encoder!r}; choose one of {', '.join(ENCODERS)}.")
        if self.time_grid not in TIME_GRIDS:
            raise ValueError(f"unknown time grid {self.time_grid!r}; choose one of {', '.join(TIME_GRIDS)}.")
        if len(self.widths) != 4 or not len(self.depths) == len(self.heads) == 4:
            raise ValueError(f"widths, depths and heads are four each; got {self.widths}, {self.depths}, {self.heads}.")

    @classmethod
    def published(cls) -> Rsa2Options:
        """The network as the paper has it."""
        return cls(validity=False, prior=False, mask_width=1, calm=False)


class Rsa2Network(nn.Module):
    """Fuses T >= 1 frames of any number that is there; see the module's description."""

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
        """One frame `[B, 3, H, W]` from several whose sides are multiples of `MULTIPLE`.

        Args:
            aligned: the frames, float; see there.
            mean: `[B, 1, 3 or 5, 1, 1]` from `input_mean`, of the whole frames when these are tiles of them.
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
        """The mean of every channel over frames and pixels, which the network does not get to see."""
        return self._channels(aligned).mean((1, 3, 4), keepdim=True)

    def _restored(self, aligned: AlignedFrames, features: Tensor) -> Tensor:
        """The frames with detail that was taken away, `[B, T, 3, H, W]`, by features `[B, C, T, H / 2, W / 2]`."""
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
        # As the convolutions of a GPU like it; tokens for attention are then a view.
        return inputs.contiguous(memory_format=torch.channels_last_3d)

    def _time_grid(self, aligned: AlignedFrames) -> Tensor:
        """Time distances `[B, T, 1, H, W]`."""
        if self.options.time_grid != "unit":
            return aligned.time_distance
        return unit_time_distance(aligned)


def unit_time_distance(aligned: AlignedFrames) -> Tensor:
    """Time distances as if the readout filled the frame interval, `[B, T, 1, H, W]`.

    With s the signed distance of the centre frame's row from the instant, frame i is `|c - i + s|` away. The
    neighbours' distances give s back, and divided by gamma it is that of a readout of 1.
    """
    if aligned.gamma is None:
        raise ValueError("the time grid 'unit' needs the gamma of the aligned frames; there is none.")
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
