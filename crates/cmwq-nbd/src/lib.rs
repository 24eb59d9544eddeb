//! An encrypted block device over NBD, on cmwq workqueues.
//!
//! The server behind the command `cmwq-nbd`: each connection has a thread that reads requests, and
//! each request is an item of a workqueue. What is stored is what dm-crypt's plain mode would store
//! (`aes-xts-plain64`).
//!
//! ```
//! use cmwq_nbd::server::{Endpoint, Queues, Server};
//! use cmwq_nbd::{export::Export, store::MemoryStore};
//! use std::sync::Arc;
//!
//! let store = MemoryStore::new(64 << 20)?;
//! let export = Arc::new(Export::new("scratch", Box::new(store), None, false));
//! let queues = Queues {
//!     requests: cmwq::Workqueue::builder("nbd").max_active(64).build()?,
//!     replies: cmwq::Workqueue::builder("nbd-reply").build()?,
//!     inline: true,
//! };
//! let anywhere = Endpoint::Tcp(([127, 0, 0, 1], 0).into());
//! let server = Server::start(export, queues, &anywhere, 16)?;
//! println!("serving at {}", server.uri());
//! server.stop()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

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
