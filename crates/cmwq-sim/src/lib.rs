//! Workqueue engines on virtual machines: predictions for machines that are not available.
//!
//! [`cmwq`] is the library itself, compiled for the virtual machine. [`kernel`] is a reference of
//! the kernel's protocol, to be compared with [published figures](published). The machine is
//! [`cmwq_vm`].

pub mod apart;
pub mod cmwq;
pub mod corpus;
pub mod explore;
pub mod kernel;
pub mod pods;
pub mod published;
pub mod rates;
pub mod storage;
