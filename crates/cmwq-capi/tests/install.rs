//! The install step: what it puts where, and that a build needs nothing but pkg-config or CMake afterwards.

mod common;

use common::{cc, crate_dir, folder, has, has_or_says, run, succeeds};
use std::fs;
use std::path::Path;
use std::process::Command;

fn install(set: &[(&str, &Path)]) {
    install_with(&[], set);
}

/// Returns what it printed.
fn install_with(args: &[&str], set: &[(&str, &Path)]) -> String {
    let mut command = Command::new(crate_dir().join("install"));
    command.args(["--profile", "dev"]).args(args);
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
    succeeds(&mut command)
}

#[test]
fn pkg_config_and_cmake_find_what_was_installed() {
    let folder = folder("install");
    let prefix = folder.join("prefix");
    let said = install_with(&[], &[("PREFIX", &prefix)]);
    let path = format!(
        "export PKG_CONFIG_PATH={}",
        prefix.join("lib/pkgconfig").display()
    );
    assert!(
        said.contains(&path),
        "pkg-config does not look there: {said}"
    );
    for file in [
        "include/cmwq/linux/workqueue.h",
        "share/cmwq/valgrind/memcheck.supp",
        "share/cmwq/valgrind/helgrind.supp",
        "share/cmwq/valgrind/drd.supp",
    ] {
        assert!(prefix.join(file).exists(), "{file}");
    }
    for header in fs::read_dir(crate_dir().join("include")).unwrap() {
        let name = header.unwrap().file_name();
        let installed = prefix.join("include").join(&name);
        assert!(installed.exists() || name == "linux", "{name:?}");
    }
    let hello = crate_dir().join("examples/hello.c");
    let device = crate_dir().join("examples/device.c");
    if has_or_says("pkg-config") {
        let flags = succeeds(
            Command::new("pkg-config")
                .args(["--cflags", "--libs", "cmwq"])
                .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
        );
        let futures = crate_dir().join("examples/cpp/futures.cpp");
        let mut programs = vec![(cc(), "-std=gnu11", &hello), (cc(), "-std=gnu11", &device)];
        if has_or_says("c++") {
            programs.push(("c++".to_owned(), "-std=c++17", &futures));
        }
        for (compiler, standard, source) in programs {
            let program = folder.join("by-pkg-config");
            let mut command = Command::new(compiler);
            command.arg(standard).arg(source);
            command.args(flags.split_whitespace());
            succeeds(command.arg("-o").arg(&program));
            run::<&str>(&program, &[]);
        }
    }
    if has("pkg-config") {
        let version = succeeds(
            Command::new("pkg-config")
                .args(["--modversion", "cmwq"])
                .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
        );
        assert_eq!(version.trim(), env!("CARGO_PKG_VERSION"));
    }
    if has_or_says("cmake") {
        let asked = ["COMPILE", "LINK"].map(|mode| {
            let mut ask = Command::new("cmake");
            ask.current_dir(&folder).args([
                "--find-package",
                "-DNAME=cmwq",
                "-DCOMPILER_ID=GNU",
                "-DLANGUAGE=C",
            ]);
            ask.arg(format!("-DMODE={mode}"));
            ask.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
            succeeds(&mut ask)
        });
        let program = folder.join("by-find-package");
        let mut command = Command::new(cc());
        command.current_dir(&folder);
        command.args(asked[0].split_whitespace()).arg(&device);
        command.args(asked[1].split_whitespace());
        succeeds(command.arg("-o").arg(&program));
        run::<&str>(&program, &[]);
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

/// The names that a library has for others to see.
fn exports(options: &[&str], library: &Path) -> Vec<String> {
    let mut nm = Command::new("nm");
    nm.args(options).arg("--defined-only").arg(library);
    let names = succeeds(&mut nm);
    let name = |line: &str| line.split_whitespace().nth(2).map(str::to_owned);
    names.lines().filter_map(name).collect()
}

#[test]
fn both_libraries_export_the_interface_only_and_the_shared_one_with_versions() {
    let folder = folder("exports");
    install(&[("PREFIX", &folder)]);
    let shared = exports(
        &["-D", "--with-symbol-versions"],
        &folder.join("lib/libcmwq.so"),
    );
    let shared: Vec<&String> = shared
        .iter()
        .filter(|name| !name.starts_with("CMWQ_"))
        .collect();
    assert!(shared.len() > 50, "{shared:?}");
    for name in &shared {
        assert!(
            name.starts_with("cmwq_") && name.contains("@@CMWQ_"),
            "{name}"
        );
    }
    let global = exports(&["-g"], &folder.join("lib/libcmwq.a"));
    assert_eq!(global.len(), shared.len(), "{global:?}");
    for name in &global {
        assert!(name.starts_with("cmwq_"), "{name}");
    }
}

#[test]
fn a_static_program_is_static_and_may_have_another_rust_library_beside() {
    let folder = folder("static-program");
    let prefix = folder.join("prefix");
    install(&[("PREFIX", &prefix)]);
    // A library of another project, with the same standard library inside.
    let other = folder.join("other.rs");
    fs::write(
        &other,
        // It catches a panic: for that it names what every Rust library has by one name.
        "#[unsafe(no_mangle)] pub extern \"C\" fn other_answer() -> i32 { \
         std::panic::set_hook(Box::new(|_| ())); \
         let n = std::thread::spawn(|| 42).join().unwrap_or(0); \
         if std::panic::catch_unwind(|| panic!()).is_err() { n } else { 0 } }",
    )
    .unwrap();
    let rustc = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let mut command = Command::new(rustc);
    command.current_dir(&folder).args([
        "--edition=2024",
        "--crate-type=staticlib",
        "-o",
        "libother.a",
    ]);
    succeeds(command.arg(&other));
    let source = crate_dir().join("tests/c/programs/two_libraries.c");
    let flags = succeeds(
        Command::new("pkg-config")
            .args(["--static", "--cflags", "--libs", "cmwq"])
            .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")),
    );
    let program = folder.join("two");
    let ours = flags.replace("-lcmwq ", "-l:libcmwq.a ");
    let mut ours: Vec<&str> = ours.split_whitespace().collect();
    // The C library's start of a static PIE fails if there is one.
    ours.retain(|flag| !flag.contains("-rpath"));
    // What it does not use is not in it: the linker warns of programs with `getaddrinfo`.
    let mut command = Command::new(cc());
    command
        .arg("-static")
        .arg(crate_dir().join("examples/hello.c"));
    command.args(&ours).arg("-o").arg(&program);
    assert_eq!(succeeds(&mut command), "");
    let libother = folder.join("libother.a");
    let other = [libother.to_str().unwrap()];
    // Whichever library comes first.
    for libraries in [[&other[..], &ours], [&ours, &other]] {
        for kind in ["-static", "-static-pie", "-pie", "-no-pie"] {
            let mut command = Command::new(cc());
            command.args([kind, "-fPIE"]).arg(&source);
            command.args(libraries.concat());
            // What both need stands behind both.
            let rest = ours.iter().filter(|flag| flag.starts_with("-l"));
            command.args(rest).arg("-o").arg(&program);
            succeeds(&mut command);
            let mut readelf = Command::new("readelf");
            let dynamic = succeeds(readelf.arg("-d").arg(&program));
            let is_static = !dynamic.contains("NEEDED");
            assert_eq!(is_static, kind.starts_with("-static"), "{dynamic}");
            assert_eq!(run::<&str>(&program, &[]), "42 1\n", "{kind}");
        }
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
    assert!(lib.join("libcmwq.so.1.0.3.0").exists() && lib.join("libcmwq.a").exists());
    assert_eq!(
        fs::read_link(lib.join("libcmwq.so.1")).unwrap(),
        Path::new("libcmwq.so.1.0.3.0")
    );
    assert_eq!(
        fs::read_link(lib.join("libcmwq.so")).unwrap(),
        Path::new("libcmwq.so.1")
    );
    for file in ["pkgconfig/cmwq.pc", "cmake/cmwq/cmwq-config.cmake"] {
        let text = fs::read_to_string(lib.join(file)).unwrap();
        assert!(
            !text.contains("stage") && text.contains("/usr/lib/here"),
            "{text}"
        );
    }
}

#[test]
fn pages_and_examples_are_installed_and_taken_away_again() {
    let folder = folder("install-pages");
    let prefix = folder.join("prefix");
    install(&[("PREFIX", &prefix)]);
    let pages = prefix.join("share/man/man3");
    for page in ["cmwq.3", "cmwq_queueing.3", "cmwq_queue_work.3"] {
        assert!(pages.join(page).exists(), "{page}");
    }
    let examples = prefix.join("share/cmwq/examples");
    for example in [
        "hello.c",
        "futures.cpp",
        "man/queueing.c",
        "libuv/uv_on_cmwq.c",
        "libuv/cmwq-node",
    ] {
        assert!(examples.join(example).exists(), "{example}");
    }
    // Who looks for a program to begin with finds none that measures.
    for other in ["bench_wq.c", "enqueue_cost.c"] {
        assert!(!examples.join(other).exists(), "{other}");
    }
    // As the head of the example says.
    let program = folder.join("hello");
    let mut command = Command::new(cc());
    command.arg(examples.join("hello.c"));
    command.arg("-I").arg(prefix.join("include"));
    command.arg("-L").arg(prefix.join("lib")).arg("-lcmwq");
    command.arg(format!("-Wl,-rpath,{}", prefix.join("lib").display()));
    succeeds(command.arg("-o").arg(&program));
    assert!(run::<&str>(&program, &[]).contains("hello"));
    // Pages of others stay.
    std::fs::write(pages.join("other.3"), "").unwrap();
    let mut command = Command::new(crate_dir().join("install"));
    succeeds(command.arg("--uninstall").env("PREFIX", &prefix));
    assert!(!examples.exists());
    let left: Vec<_> = fs::read_dir(&pages).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Its functions are all there; the one that needs the endpoint says that it cannot.
#[test]
fn the_small_library_has_the_whole_interface_and_no_endpoint() {
    let folder = folder("install-small");
    let [whole, small] = ["whole", "small"].map(|name| folder.join(name));
    install(&[("PREFIX", &whole)]);
    install_with(&["--small"], &[("PREFIX", &small)]);
    let library = |prefix: &Path| prefix.join("lib/libcmwq.so");
    let names = |prefix: &Path| exports(&["-D"], &library(prefix));
    assert_eq!(names(&whole), names(&small));
    let source = folder.join("asks.c");
    let program = "#include <cmwq.h>\n#include <stdio.h>\nint main(void) { printf(\"%d\\n\", cmwq_serve_control_if_asked()); return 0; }\n";
    std::fs::write(&source, program).unwrap();
    let program = folder.join("asks");
    let mut command = Command::new(cc());
    command.arg(&source).arg("-I").arg(small.join("include"));
    command.arg("-L").arg(small.join("lib")).arg("-lcmwq");
    command.arg(format!("-Wl,-rpath,{}", small.join("lib").display()));
    succeeds(command.arg("-o").arg(&program));
    for (asked, answer) in [("", "0"), ("0", "0"), ("1", "-38")] {
        let output = Command::new(&program)
            .env("CMWQ_CONTROL", asked)
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), answer);
        let warning = String::from_utf8_lossy(&output.stderr);
        assert_eq!(
            warning.contains("without the control endpoint"),
            asked == "1",
            "{warning}"
        );
    }
}
