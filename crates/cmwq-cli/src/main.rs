//! The `cmwq` command.
fn main() {}
