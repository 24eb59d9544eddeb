//! The engine: one machine description, its pods and pools, and the parameters that all its workqueues share.

mod all;
mod build;
mod builder;
mod core;
mod freezer;
mod hotplug;
mod issuer;
mod parameters;
mod parts;
mod quota;
mod stalls;
mod text;
mod thresholds;

pub use self::core::Engine;
pub(crate) use self::core::Queue;
pub use crate::pool::EngineStats;
pub use builder::EngineBuilder;
pub use parameters::Setting;
pub(crate) use parts::cpus::{declared, here};
pub(crate) use parts::key::PoolKey;
pub use parts::limit::CpuLimit;
pub(crate) use parts::registry::{Registry, epochs};
pub use text::{Errno, TextError};
pub(crate) use text::{SetText, inval, leading_integer, parse_mask, possible_numbers, shown};
