//! Chooses the virtual machine's back end of the library's `sys` module.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A feature of the library, which this crate does not have.
    println!("cargo::rustc-check-cfg=cfg(feature, values(\"tracing\"))");
    println!("cargo::rustc-cfg=cmwq_sim");
}
