//! The install step: what it puts where, and that a build needs nothing but pkg-config or CMake afterwards.

mod common;

use common::{cc, crate_dir, folder, has, run, succeeds};
use std::fs;
use std::path::Path;
use std::process::Command;

fn install(set: &[(&str, &Path)]) {
    let mut command = Command::new(crate_dir().join("install"));
    command.args(["--profile", "dev"]);
    // The folder that cargo test builds in.
    command.env(
        "CARGO_TARGET_DIR",
        common::built().ancestors().nth(2).unwrap(),
    );
    command
        .env_remove("DESTDIR")
        .env_remove("PREFIX")
        .env_remove("LIBDIR");
    for (name, value) in set {
        command.env(name, value);
    }
    succeeds(&mut command);
}

#[test]
fn pkg_config_and_cmake_find_what_was_installed() {
    let folder = folder("install");
    let prefix = folder.join("prefix");
    install(&[("PREFIX", &prefix)]);
    assert!(prefix.join("include/cmwq/linux/workqueue.h").exists());
    let hello = crate_dir().join("examples/hello.c");
    let device = crate_dir().join("examples/device.c");
    if has("pkg-config") {
        let flags = succeeds(
            Command::new("pkg-config")
                .args(["--cflags", "--libs", "cmwq"])
                .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
        );
        for source in [&hello, &device] {
            let program = folder.join("by-pkg-config");
            let mut command = Command::new(cc());
            command.arg(source).args(flags.split_whitespace());
            succeeds(command.arg("-o").arg(&program));
            run::<&str>(&program, &[]);
        }
    }
    if has("cmake") {
        let project = folder.join("project");
        fs::create_dir_all(&project).unwrap();
        let lists = format!(
            "cmake_minimum_required(VERSION 3.10)\nproject(p C)\nfind_package(cmwq 0.1 REQUIRED)\n\
             add_executable(shared \"{device}\")\ntarget_link_libraries(shared cmwq::cmwq)\n\
             add_executable(static \"{hello}\")\ntarget_link_libraries(static cmwq::static)\n",
            hello = hello.display(),
            device = device.display(),
        );
        fs::write(project.join("CMakeLists.txt"), lists).unwrap();
        let build = project.join("build");
        let mut configure = Command::new("cmake");
        configure.arg("-S").arg(&project).arg("-B").arg(&build);
        configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
        configure.arg("-DCMAKE_C_FLAGS=-pthread");
        succeeds(&mut configure);
        succeeds(Command::new("cmake").arg("--build").arg(&build));
        run::<&str>(&build.join("shared"), &[]);
        run::<&str>(&build.join("static"), &[]);
    }
}

#[test]
fn a_package_is_put_below_destdir_and_mentions_the_prefix_only() {
    let folder = folder("destdir");
    install(&[
        ("DESTDIR", &folder.join("stage")),
        ("PREFIX", Path::new("/usr")),
        ("LIBDIR", Path::new("/usr/lib/here")),
    ]);
    let lib = folder.join("stage/usr/lib/here");
    assert!(lib.join("libcmwq.so.0.1.0").exists() && lib.join("libcmwq.a").exists());
    assert_eq!(
        fs::read_link(lib.join("libcmwq.so.0")).unwrap(),
        Path::new("libcmwq.so.0.1.0")
    );
    assert_eq!(
        fs::read_link(lib.join("libcmwq.so")).unwrap(),
        Path::new("libcmwq.so.0")
    );
    for file in ["pkgconfig/cmwq.pc", "cmake/cmwq/cmwq-config.cmake"] {
        let text = fs::read_to_string(lib.join(file)).unwrap();
        assert!(
            !text.contains("stage") && text.contains("/usr/lib/here"),
            "{text}"
        );
    }
}
