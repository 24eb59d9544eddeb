//! Names the shared library, and keeps it in memory.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcmwq.so.1");
    // Its threads run its code: dlclose must not unmap it.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
