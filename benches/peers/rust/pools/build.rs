//! Takes the versions of the peers from the lock file, so that what is printed is what was built.

use std::path::Path;
use std::{env, fs};

fn main() {
    let lock =
        Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../Cargo.lock");
    println!("cargo::rerun-if-changed={}", lock.display());
    let text = fs::read_to_string(&lock).unwrap_or_default();
    for name in [
        "affinitypool",
        "cmwq",
        "tokio",
        "rayon",
        "crossbeam-channel",
        "crossfire",
        "disruptor",
        "async-executor",
        "blocking",
        "chili",
    ] {
        let version = text
            .split("[[package]]")
            .find(|package| package.contains(&format!("name = \"{name}\"\n")))
            .and_then(|package| package.split("version = \"").nth(1))
            .and_then(|rest| rest.split('"').next())
            .unwrap_or("of an unknown version");
        let key = name.replace('-', "_").to_uppercase();
        println!("cargo::rustc-env=PEER_{key}={name} {version}");
    }
}
