"""Where correct implementations may differ: named axes, each with its admissible choices."""

from dataclasses import dataclass
from typing import Literal

from gnomon.spec.configuration import Layout

Scale = Literal["1/sqrt(head_width)", "1", "1/head_width"]
HeadMapping = Literal["grouped", "tiled"]
Polarity = Literal["keep", "block"]
Alignment = Literal["bottom-right", "top-left"]
EmptyRow = Literal["zeros", "mean", "nan"]
Window = Literal["including-self", "excluding-self"]
NonFinite = Literal["blocked", "leaks"]
Rotation = Literal["forward", "backward"]
Sinusoids = Literal["interleaved", "concatenated"]
ClipEpsilon = Literal["0", "1e-6"]
FirstRate = Literal["zero", "share", "ahead"]
AfterEnd = Literal["minimum", "on"]
Narrowing = Literal["once", "twice"]
Subnormals = Literal["kept", "flushed"]
E4M3Overflow = Literal["nan", "saturates"]
E5M2Overflow = Literal["infinity", "saturates"]
AllIgnored = Literal["zero", "nan"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conventions:
    """What an implementation says of itself where the equation leaves a choice.

    `None` means: not declared, so it is measured and reported. The axes with a default are those that the
    interface itself fixes; another choice has to be declared.
    """

    scale: Scale = "1/sqrt(head_width)"
    head_mapping: HeadMapping = "grouped"  # query head i reads i·h_kv//h, or i mod h_kv
    polarity: Polarity = "keep"  # what `True` in a boolean mask says of a key
    window: Window = "including-self"  # whether the w keys of a window count the query's own
    alignment: Alignment | None = None  # the corner at which a causal mask starts when lengths differ
    empty_row: EmptyRow | None = None  # what a query that may attend to nothing returns
    masked_key: NonFinite | None = None  # whether NaN in a masked key reaches the output
    masked_value: NonFinite | None = None  # whether NaN in a masked value reaches the output
    rotary_layout: Layout = "half"  # which features rotary positions pair where no layout is asked for
    rotation: Rotation = "forward"  # whether a pair (1, 0) turns to (cos, sin) or to (cos, −sin)
    sinusoids: Sinusoids = "interleaved"  # whether each sine stands beside its cosine, or all sines come first
    all_ignored: AllIgnored | None = None  # the mean loss of a batch in which every target is ignored
    narrowing: Narrowing = "once"  # whether a cast from float64 may round to float32 on its way to fewer bits
    subnormals: Subnormals = "kept"  # whether a cast may make what lies under the smallest normal number zero
    e4m3fn_overflow: E4M3Overflow | None = None  # what lies beyond the format without infinity
    e5m2_overflow: E5M2Overflow | None = None  # and beyond the other of eight bits
    clip_epsilon: ClipEpsilon | None = None  # what clipping adds to the global norm before it divides by it
    first_rate: FirstRate | None = None  # the rate of step 0: none, a share of the warm-up, or all a step ahead
    after_end: AfterEnd | None = None  # where a cosine schedule is after its end: at its minimum, or on its way up
