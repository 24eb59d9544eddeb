//! An encrypted block device over NBD, on cmwq workqueues.
//!
//! The server behind the command `cmwq-nbd`: each connection has a thread that reads requests, and each request is an item
//! of a workqueue. What is stored is what dm-crypt's plain mode would store (`aes-xts-plain64`).

#![deny(unsafe_op_in_unsafe_fn)]

pub mod cipher;
mod connection;
pub mod export;
mod inherited;
pub mod key;
mod negotiate;
mod note;
mod pool;
pub mod protocol;
mod reply;
mod ring;
mod scheduling;
pub mod secret;
pub mod server;
mod socket;
pub mod store;
