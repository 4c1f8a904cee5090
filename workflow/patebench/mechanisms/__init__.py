"""Mechanisms: how votes become labels, what each outcome's probability is, and which theorems bound the cost.

One mechanism is one file and one line here. A class registered here implements `base.Mechanism`. `also` lists what else
it is called, for hints at its name.
"""

from patebench.core.registry import Registry, by

MECHANISMS = Registry("mechanism", "patebench.mechanisms", by("patebench.mechanisms.base:fault_of"))
MECHANISMS.add(
    "lnmax", "patebench.mechanisms.lnmax:LNMax", also=("laplace", "laplacian", "noisy-max", "report-noisy-max")
)
MECHANISMS.add("gnmax", "patebench.mechanisms.gnmax:GNMax", also=("gaussian", "gauss", "normal"))
MECHANISMS.add("distributed-gnmax", "patebench.mechanisms.distributed_gnmax:DistributedGNMax")
MECHANISMS.add("confident-gnmax", "patebench.mechanisms.confident_gnmax:ConfidentGNMax")
MECHANISMS.add("interactive-gnmax", "patebench.mechanisms.interactive_gnmax:InteractiveGNMax")
MECHANISMS.add("immutable-lnmax", "patebench.mechanisms.immutable_lnmax:ImmutableLNMax")
MECHANISMS.add("immutable-gnmax", "patebench.mechanisms.immutable_gnmax:ImmutableGNMax")
MECHANISMS.add("truncated-geometric", "patebench.mechanisms.truncated_geometric:TruncatedGeometric")
MECHANISMS.add("randomised-response", "patebench.mechanisms.randomised_response:RandomisedResponse")
MECHANISMS.add("exponential", "patebench.mechanisms.exponential:Exponential")
MECHANISMS.add("permute-and-flip", "patebench.mechanisms.permute_and_flip:PermuteAndFlip")
MECHANISMS.add("stable-argmax", "patebench.mechanisms.stable_argmax:StableArgmax")
MECHANISMS.add("stable-svt", "patebench.mechanisms.stable_svt:StableSVT", also=("svt", "sparse-vector"))
MECHANISMS.add("stable-svt-gaussian", "patebench.mechanisms.stable_svt_gaussian:StableSVTGaussian")
MECHANISMS.add("sparse-gnmax", "patebench.mechanisms.sparse_gnmax:SparseGNMax")
MECHANISMS.add("sparse-lnmax", "patebench.mechanisms.sparse_lnmax:SparseLNMax")
MECHANISMS.add("distributed-sparse-gnmax", "patebench.mechanisms.distributed_sparse_gnmax:DistributedSparseGNMax")
MECHANISMS.add("ptr-gnmax", "patebench.mechanisms.ptr_gnmax:PtrGNMax", also=("ptr", "propose-test-release"))
MECHANISMS.add("ptr-lnmax", "patebench.mechanisms.ptr_lnmax:PtrLNMax")
