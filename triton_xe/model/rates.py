"""Rates of each product's pipes, caches and memory, one row per product.

Every number names its source in `SOURCES`, by letter:

a  Intel's product pages and its compute runtime (cores, clocks, sizes of memory and caches).
b  Vulkan compute microbenchmarks of Arc B580 and Arc Pro B70, "roofline reports" published on
   GitHub in 2026: L1, SLM, DRAM, latencies.
c  SPIR-V microbenchmarks of Arc Pro B60, published on GitHub in 2026: interval of DPAS, latency of
   caches, time to dispatch a work-group, empty kernel.
d  Hot Chips 34, "Ponte Vecchio" (Jiang): L1 and L2 bandwidth of Data Center GPU Max.
e  Argonne Leadership Computing Facility, Aurora user guide: triad and GEMM of one stack.
f  oneDNN, `gemm/jit/selector/db/kernel.db`: fixed cost of a GEMM, throttle of Max and Arc A.
g  Assembly microbenchmarks of Arc A770, published on GitHub: L1, SLM, DPAS.
h  sycl-tla, tile solver of its mixture-of-experts GEMM: 18.286 clocks for a DPAS of 16.
i  Intel graphics compiler, `visa/LocalScheduler/LatencyTables`: occupancy and latency of pipes.
j  OpenVINO roofline report on Panther Lake and Arc B580, published on GitHub.
k  derived: matrix peak of the product page divided by cores and clock.
l  assumed equal to the nearest relative, because no measurement is published.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from triton_xe.hardware.target import Target
from triton_xe.hardware.target import target as find_target

DPAS_EFFICIENCY = 14 / 16
"""Fraction of clocks in which the matrix unit of a busy engine works (h)."""
MATH_CLOCKS = 4
"""Clocks for which a transcendental instruction occupies its pipe, relative to an addition (i)."""
FABRIC = 0.9
"""Fraction of a level's nominal bandwidth that kernels sustain: oneAPI GPU optimization guide."""


@dataclass(frozen=True)
class Rates:
    """Rates of one product: bytes per clock of one Xe core; `read` and `write` in GB/s."""

    product: str
    cores: int
    clock_ghz: float
    lanes: int
    """Lanes for which an engine adds or multiplies fp32 in each clock."""
    dpas_clocks: float
    """Clocks from one DPAS of repeat count 8 to the next on an engine."""
    l1: float
    slm: float
    l2: float
    l2_mb: float
    read: float
    write: float
    launch_us: float
    group_clocks: float
    """Clocks between two work-groups that are dispatched to a core."""
    memory_latency: float
    """Clocks until a load from memory returns."""
    sustained: float = 1.0
    """Fraction of the clock that is sustained under a load of DPAS; the only calibrated factor."""
    sources: str = ""
    target: str = "bmg"
    """Device whose architecture the product has."""

    @property
    def device(self) -> Target:
        return find_target(self.target)

    @property
    def is_assumed(self) -> bool:
        """True if no rate of the product is published."""
        return self.sources == _ALL_ASSUMED

    @property
    def label(self) -> str:
        """The product, marked if its rates are assumed."""
        return f"{self.product} (assumed rates)" if self.is_assumed else self.product

    @property
    def matrix_flops_per_us(self) -> float:
        """Rate of fp16 products that a tuned kernel reaches."""
        each = 2 * 8 * 16 * self.lanes
        return (self.cores * self.device.eus_per_core * each / self.dpas_clocks * DPAS_EFFICIENCY
                * self.clock_ghz * self.sustained * 1e3)

    @property
    def vector_flops_per_us(self) -> float:
        """Rate of fp32 additions and multiplications that a tuned kernel reaches."""
        each = self.device.eus_per_core * self.lanes * 2
        return self.cores * each * FABRIC * self.clock_ghz * 1e3


_XE2 = Rates(
    "", 20, 2.85, 16, 16, l1=106, slm=120, l2=64, l2_mb=18, read=456, write=402, launch_us=2.3,
    group_clocks=96, memory_latency=780,
)
_HPC = Rates(
    "", 64, 1.6, 16, 8, l1=512, slm=128, l2=64, l2_mb=204, read=1100, write=950, launch_us=1.35,
    group_clocks=96, memory_latency=750, target="pvc",
)
_HPG = Rates(
    "", 32, 2.4, 8, 16, l1=134, slm=208, l2=64, l2_mb=16, read=500, write=440, launch_us=1.6,
    group_clocks=96, memory_latency=780, target="dg2",
)

_ALL_ASSUMED = "all l"

PRODUCTS: Mapping[str, Rates] = {r.product: r for r in (
    replace(_XE2, product="Arc B580", sources="cores ac, L1 SLM DRAM b, L2 l, launch b, group c"),
    replace(_XE2, product="Arc Pro B60", clock_ghz=2.4, read=456, write=380,
            sources="cores a, L1 SLM l, DRAM ac, launch l, group c"),
    replace(_XE2, product="Arc Pro B70", cores=32, clock_ghz=2.8, l1=111, slm=114, l2_mb=24,
            read=604, write=511, launch_us=1.7,
            target="bmg-g31", sources="cores a, L1 SLM DRAM b, launch b, group c"),
    replace(_XE2, product="Arc 140V", target="lnl", cores=8, clock_ghz=2.05, l2_mb=8, read=110,
            write=100, launch_us=3, sources="cores a, L1 SLM l, DRAM a with 0.8, launch l"),
    replace(_XE2, product="Arc B390", target="ptl", cores=12, clock_ghz=2.4, l2_mb=16, read=105,
            write=95, launch_us=3, sources="cores a, L1 SLM l, DRAM j, launch l"),
    replace(_XE2, product="Arc Graphics (Wildcat Lake)", target="wcl", cores=2, clock_ghz=2.5,
            l2_mb=4, read=60, write=55, launch_us=3, sources=_ALL_ASSUMED),
    replace(_XE2, product="Arc Graphics (Nova Lake S)", target="nvl-s", cores=2, clock_ghz=2.5,
            l2_mb=4, read=100, write=90, launch_us=3, sources=_ALL_ASSUMED),
    replace(_XE2, product="Arc Graphics (Nova Lake U)", target="nvl-u", cores=4, clock_ghz=2.5,
            l2_mb=8, read=100, write=90, launch_us=3, sources=_ALL_ASSUMED),
    replace(_XE2, product="Arc Graphics (Nova Lake P)", target="nvl-p", cores=12, clock_ghz=2.5,
            l2_mb=16, read=105, write=95, launch_us=3, sources=_ALL_ASSUMED),
    replace(_XE2, product="Crescent Island", target="cri", cores=32, clock_ghz=2.5, l2_mb=24,
            read=600, write=510, sources=_ALL_ASSUMED),
    replace(_HPC, product="Data Center GPU Max 1550 (one stack)", sustained=0.68,
            sources="cores a, L1 L2 d, DRAM e, launch f, throttle ef"),
    replace(_HPC, product="Data Center GPU Max 1100", cores=56, clock_ghz=1.55, l2_mb=108, read=825,
            write=710, sustained=0.68, sources="cores a, L1 L2 d, DRAM e by peak, launch f"),
    replace(_HPG, product="Arc A770", sources="cores a, L1 SLM g, launch f"),
    replace(_HPG, product="Arc 140T", target="arl-h", cores=8, clock_ghz=2.35, l2_mb=8, read=100,
            write=90, launch_us=3, sources="cores a, others l"),
    replace(_HPG, product="Arc Graphics (Meteor Lake)", target="mtl", cores=8, clock_ghz=2.25,
            l2_mb=8, read=85, write=75, launch_us=3, sources="cores a, others l"),
)}
