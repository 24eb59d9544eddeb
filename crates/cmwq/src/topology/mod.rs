//! The machine: CPUs, cores, caches and NUMA nodes.
