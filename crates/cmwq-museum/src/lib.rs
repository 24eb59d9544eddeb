//! The library's sources with the pieces of the museum put in, see `pieces/`. None is active until
//! it is chosen.
#![allow(warnings, clippy::all, reason = "it is mutated code")]

include!(concat!(env!("OUT_DIR"), "/library/lib.rs"));
