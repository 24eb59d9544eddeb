//! The command from outside.

mod asking;
mod before;
mod bench;
mod bench_loop;
mod common;
mod control;
mod generate;
mod groups;
mod live;
mod mount;
mod silent;
mod top;
mod topology;
