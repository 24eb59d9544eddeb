//! The parts of a workqueue: attributes, limits, pool workqueues, and the routes to them.

pub(crate) mod attrs;
pub(crate) mod core;
pub(crate) mod flush;
pub(crate) mod group;
pub(crate) mod kind;
pub(crate) mod limits;
pub(crate) mod mapping;
pub(crate) mod memory_reclaim;
pub(crate) mod node;
pub(crate) mod pwq;
pub(crate) mod route;
