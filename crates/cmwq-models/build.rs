//! Chooses the model checker's back end of the library's `sys` room.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=cmwq_loom");
}
