//! The command is linked to a fixed address: what depends on the addresses of functions and statics
//! is the same in each process then.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Rust's start code for musl relocates the program, and crashes in one that is linked to a fixed address.
    if std::env::var("CARGO_CFG_TARGET_ENV").as_deref() != Ok("musl") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
