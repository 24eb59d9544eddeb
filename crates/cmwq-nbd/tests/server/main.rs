//! The server in this process: its protocol, its disk format, faults, and what clients may send.

#[path = "../common/mod.rs"]
mod common;
mod disk_format;
mod fairness;
mod faults;
mod fuzz;
mod items;
mod protocol;
mod sockets;
