"""Training recipes of networks; this module does not import torch, so configurations are checked quickly."""

from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Optimiser, learning rate, augmentation and other settings with which a network is trained.

    Parameters
    ----------
    optimiser : "sgd" or "adamw"
    learning_rate : constant learning rate, or maximum of the learning rate in a one-cycle schedule
    batch : number of samples per step
    epochs : number of passes over the training samples
    schedule : "constant", or "one-cycle" (warm up to `learning_rate`, then anneal to zero)
    weight_decay : coefficient of the weight decay
    label_smoothing : share of the target probability that is divided equally among all classes
    ema : decay of the exponential moving average of the weights. Predictions use the averaged weights; None: the last
        weights
    rotation, shear : largest angles of the random affine map of an image, in degrees
    scale, shift : largest change of the image's size, and largest shift, as fractions
    bend : standard deviation of smooth displacements, as a fraction of the image's size
    precision : "single", or "reduced" (bfloat16 if the device computes it natively; see `device.py`)
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
        return any((self.rotation, self.shear, self.scale, self.shift, self.bend))


#: Recipe of PATE 2017's official code: SGD at 0.05 with batches of 128, averaged weights, no augmentation. The code
#: takes 3000 steps for every shard size, which for 240 samples are 1500 epochs. Here the number of epochs is fixed.
PAPER = Recipe(optimiser="sgd", learning_rate=0.05, batch=128, epochs=1500, ema=0.9999)

#: AdamW with a one-cycle schedule and random affine augmentation, for teachers with few samples.
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

#: The modern recipe with a third of its epochs, a larger learning rate and label smoothing.
FAST = replace(MODERN, learning_rate=8e-3, epochs=16, label_smoothing=0.2)

#: The modern recipe without augmentation.
PLAIN = replace(MODERN, rotation=0.0, shear=0.0, scale=0.0, shift=0.0)

#: The modern and the plain recipe with oversampling, for shards in which one class dominates.
MODERN_OVERSAMPLED, PLAIN_OVERSAMPLED = replace(MODERN, oversample=True), replace(PLAIN, oversample=True)
