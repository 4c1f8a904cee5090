"""Registered mechanisms: each turns votes into labels and states the theorems that bound its privacy cost.

To add a mechanism, write one file with a class that implements `base.Mechanism`, and add one line here. The argument
`also` lists other common names of the mechanism, for hints to users who type one of them.
"""

from patebench.core.registry import Registry

MECHANISMS = Registry("mechanism", "patebench.mechanisms", "patebench.mechanisms.base:fault_of")
MECHANISMS.add(
    "lnmax", "patebench.mechanisms.noisy_argmax:LNMax", also=("laplace", "laplacian", "noisy-max", "report-noisy-max")
)
MECHANISMS.add("gnmax", "patebench.mechanisms.noisy_argmax:GNMax", also=("gaussian", "gauss", "normal"))
MECHANISMS.add("distributed-gnmax", "patebench.mechanisms.noise_shares:DistributedGNMax")
MECHANISMS.add("confident-gnmax", "patebench.mechanisms.confident_gnmax:ConfidentGNMax")
MECHANISMS.add("interactive-gnmax", "patebench.mechanisms.confident_gnmax:InteractiveGNMax")
MECHANISMS.add("immutable-lnmax", "patebench.mechanisms.immutable:ImmutableLNMax")
MECHANISMS.add("immutable-gnmax", "patebench.mechanisms.immutable:ImmutableGNMax")
MECHANISMS.add("truncated-geometric", "patebench.mechanisms.local_mechanisms:TruncatedGeometric")
MECHANISMS.add("randomised-response", "patebench.mechanisms.local_mechanisms:RandomisedResponse")
MECHANISMS.add("exponential", "patebench.mechanisms.exponential:Exponential")
MECHANISMS.add("permute-and-flip", "patebench.mechanisms.exponential:PermuteAndFlip")
MECHANISMS.add("stable-argmax", "patebench.mechanisms.stable_argmax:StableArgmax")
MECHANISMS.add("stable-svt", "patebench.mechanisms.stable_argmax:StableSVT", also=("svt", "sparse-vector"))
MECHANISMS.add("stable-svt-gaussian", "patebench.mechanisms.stable_argmax:StableSVTGaussian")
MECHANISMS.add("sparse-gnmax", "patebench.mechanisms.sparse_argmax:SparseGNMax")
MECHANISMS.add("sparse-lnmax", "patebench.mechanisms.sparse_argmax:SparseLNMax")
MECHANISMS.add("distributed-sparse-gnmax", "patebench.mechanisms.noise_shares:DistributedSparseGNMax")
MECHANISMS.add("ptr-gnmax", "patebench.mechanisms.ptr:PtrGNMax", also=("ptr", "propose-test-release"))
MECHANISMS.add("ptr-lnmax", "patebench.mechanisms.ptr:PtrLNMax")
