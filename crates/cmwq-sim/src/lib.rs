//! Workqueue engines on virtual machines: what they would do on machines that are not at hand.
//!
//! [`cmwq`] is the library itself, compiled for the virtual machine. [`kernel`] is a reference of the kernel's protocol, to be compared with [published figures](published). The machine is
//! [`cmwq_vm`].

pub mod cmwq;
pub mod explore;
pub mod kernel;
pub mod pods;
pub mod published;
