//! Compiling and running C programs against the library that cargo has just built.

#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn crate_dir() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The headers that declare what the library exports: cmwq.h, and the parts that it includes.
pub(crate) const DECLARING: [&str; 3] = ["cmwq.h", "cmwq_cq.h", "cmwq_task.h"];

pub(crate) fn without_comments(header: &str) -> String {
    let mut code = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    code.push_str(rest);
    code
}

/// Functions that a header declares without defining them: declarations at the margin, of a line or several.
pub(crate) fn declared(header: &str) -> BTreeSet<String> {
    // The lines behind the first one begin with a tab, and end with what goes on, or with the declaration.
    let code = without_comments(header).replace(",\n\t", ", ");
    let margin = |line: &&str| {
        line.ends_with(");") && !line.starts_with([' ', '\t', '#']) && !line.starts_with("typedef")
    };
    let margin = |line: &&str| margin(line) || line.starts_with("extern struct");
    let names = code.lines().filter(margin).filter_map(|line| {
        let before = line.trim_end_matches(';').split('(').next()?;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("cmwq_").then(|| name.to_owned())
    });
    names.collect()
}

/// Where cargo has put the library: beside this test's program.
pub(crate) fn built() -> PathBuf {
    let program = env::current_exe().unwrap();
    let folder = program.parent().unwrap().to_owned();
    assert!(
        folder.join("libcmwq_capi.so").exists(),
        "no libcmwq_capi.so in {}",
        folder.display()
    );
    folder
}

/// The C compiler, which rustc has linked with as well.
pub(crate) fn cc() -> String {
    let cc = env::var("CC").unwrap_or_else(|_| "cc".into());
    assert!(
        has(&cc),
        "no C compiler '{cc}'; on Debian: apt-get install gcc (or name one in CC)"
    );
    cc
}

/// Whether there is such a command.
pub(crate) fn has(command: &str) -> bool {
    Command::new(command).arg("--version").output().is_ok()
}

/// The same, and says what is left out if there is none.
pub(crate) fn has_or_says(command: &str) -> bool {
    let there = has(command);
    if !there {
        println!("skipped, because {command} is not there");
    }
    there
}

/// A folder of the test's own, with the library under the names that a linker and a loader look for.
pub(crate) fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    for name in ["libcmwq.so", "libcmwq.so.1"] {
        symlink(built().join("libcmwq_capi.so"), folder.join(name)).unwrap();
    }
    folder
}

pub(crate) fn includes() -> [String; 1] {
    [format!("-I{}", crate_dir().join("include").display())]
}

/// The output of a command that must succeed.
pub(crate) fn succeeds(command: &mut Command) -> String {
    let output = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = said(&output);
    assert!(
        output.status.success(),
        "{command:?}: {}\n{text}",
        output.status
    );
    text
}

pub(crate) fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

pub(crate) const STRICT: [&str; 4] = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"];

/// Compiles a program against the shared library. `source`: below the crate's folder.
pub(crate) fn compile<A: AsRef<OsStr>>(
    folder: &Path,
    source: &str,
    compiler: &str,
    args: &[A],
) -> PathBuf {
    compile_at(folder, &crate_dir().join(source), compiler, args)
}

/// The same, of a source anywhere.
pub(crate) fn compile_at<A: AsRef<OsStr>>(
    folder: &Path,
    source: &Path,
    compiler: &str,
    args: &[A],
) -> PathBuf {
    let program = folder.join(source.file_stem().unwrap());
    let mut command = Command::new(compiler);
    command
        .args(STRICT)
        .args(["-O1", "-g", "-pthread"])
        .args(args)
        .args(includes());
    command.arg(source).arg("-L").arg(folder);
    command.arg(format!("-Wl,-rpath,{}", folder.display()));
    command.args(["-lcmwq", "-ldl", "-o"]).arg(&program);
    succeeds(&mut command);
    program
}

/// Runs a program. One that has not ended after five minutes hangs: beside processes that compute,
/// what takes a second may take half a minute.
pub(crate) fn run<A: AsRef<OsStr>>(program: &Path, args: &[A]) -> String {
    succeeds(Command::new("timeout").arg("300").arg(program).args(args))
}
