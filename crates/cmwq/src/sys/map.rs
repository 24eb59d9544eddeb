//! Hash maps. In the virtual machine they hash the same way each time, so that iteration order
//! follows from the seed alone.
#![forbid(unsafe_code)]

#[cfg(not(cmwq_sim))]
pub(crate) use std::collections::HashMap;

#[cfg(cmwq_sim)]
pub(crate) type HashMap<K, V> = std::collections::HashMap<
    K,
    V,
    std::hash::BuildHasherDefault<std::collections::hash_map::DefaultHasher>,
>;
