"""Training recipes of networks: only numbers, so that a recipe can be read, printed and hashed without torch."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """One way to train a network.

    Parameters
    ----------
    optimiser : "sgd" or "adamw"
    schedule : "constant", or "one-cycle" (warm up to `learning_rate`, then anneal to zero)
    ema : decay of the exponential moving average of the weights, which then predicts; None: the last weights predict
    rotation, shear : largest angles of the random affine map, in degrees
    scale, shift : largest change of size, and largest shift, as fractions
    bend : standard deviation of smooth displacements, as a fraction of the size
    precision : "single", or "reduced" (autocast to bfloat16 where the device computes it natively; `device.py`)
    oversample : repeat the samples of rarer classes until all classes are equally frequent (`network.oversampled`)
    """

    optimiser: str
    learning_rate: float
    batch: int
    epochs: int
    schedule: str = "constant"
    weight_decay: float = 0.0
    label_smoothing: float = 0.0
    ema: float | None = None
    rotation: float = 0.0
    shear: float = 0.0
    scale: float = 0.0
    shift: float = 0.0
    bend: float = 0.0
    precision: str = "single"
    oversample: bool = False

    @property
    def augments(self) -> bool:
        return any((self.rotation, self.shear, self.scale, self.shift))


#: PATE 2017's official code: SGD at 0.05 with batches of 128, averaged weights, no augmentation. The code takes 3000
#: steps for every shard size, which is 1500 epochs of 240 samples; here `epochs` fixes the number of passes.
PAPER = Recipe(optimiser="sgd", learning_rate=0.05, batch=128, epochs=1500, ema=0.9999)

#: AdamW with one cycle and random affine augmentation: far stronger teachers from few samples.
MODERN = Recipe(
    optimiser="adamw",
    learning_rate=4e-3,
    batch=32,
    epochs=50,
    schedule="one-cycle",
    weight_decay=1e-2,
    rotation=12.0,
    shear=12.0,
    scale=0.12,
    shift=0.08,
    precision="reduced",
)

#: The modern recipe in a third of the time: larger steps and smoothed labels replace the missing epochs.
FAST = replace(MODERN, learning_rate=8e-3, epochs=16, label_smoothing=0.2)

#: The modern recipe without augmentation.
PLAIN = replace(MODERN, rotation=0.0, shear=0.0, scale=0.0, shift=0.0)

#: The modern recipe, with and without augmentation, for shards dominated by one class.
MODERN_OVERSAMPLED, PLAIN_OVERSAMPLED = replace(MODERN, oversample=True), replace(PLAIN, oversample=True)
