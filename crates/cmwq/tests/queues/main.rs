//! Workqueues of every kind, their limits and attributes, and where their items run.

mod bh;
mod descriptions;
mod groups;
#[path = "../harness/mod.rs"]
mod harness;
mod hogs;
mod kinds;
mod lifecycle;
mod limit;
mod on_cpus;
mod own_items;
mod own_places;
mod queues;
mod room;
mod scopes;
mod selection;
mod system;
mod user_code;
mod warnings;
