//! The header and the library say the same, and every header compiles by itself without a warning, in C and C++.

mod common;

use common::{STRICT, built, cc, crate_dir, folder, has, includes, succeeds};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

/// Functions that a header declares without defining them: lines that begin a declaration, at the margin.
fn declared(header: &str) -> BTreeSet<String> {
    let mut code = String::new();
    let mut rest = header;
    while let Some((before, comment)) = rest.split_once("/*") {
        code.push_str(before);
        rest = comment.split_once("*/").expect("a comment ends").1;
    }
    code.push_str(rest);
    let margin = |line: &&str| {
        line.ends_with(");") && !line.starts_with([' ', '\t', '#']) && !line.starts_with("typedef")
    };
    let names = code.lines().filter(margin).filter_map(|line| {
        let before = line.split('(').next()?;
        let name = before.rsplit([' ', '*']).next()?;
        name.starts_with("cmwq_").then(|| name.to_owned())
    });
    names.collect()
}

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let header = fs::read_to_string(crate_dir().join("include/cmwq.h")).unwrap();
    let declared = declared(&header);
    assert!(declared.len() > 50, "{declared:?}");
    let mut nm = Command::new("nm");
    nm.args(["-D", "--defined-only"])
        .arg(built().join("libcmwq_capi.so"));
    let exported: BTreeSet<String> = succeeds(&mut nm)
        .lines()
        .filter_map(|line| Some(line.split_whitespace().last()?.to_owned()))
        .collect();
    let missing: Vec<_> = declared.difference(&exported).collect();
    let undeclared: Vec<_> = exported.difference(&declared).collect();
    assert!(
        missing.is_empty() && undeclared.is_empty(),
        "not exported: {missing:?}; not declared: {undeclared:?}"
    );
}

#[test]
fn the_library_has_its_name_and_stays_in_memory() {
    let mut readelf = Command::new("readelf");
    readelf.arg("-d").arg(built().join("libcmwq_capi.so"));
    let text = succeeds(&mut readelf);
    assert!(text.contains("[libcmwq.so.0]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
}

#[test]
fn every_header_compiles_by_itself() {
    let folder = folder("headers");
    let mut headers = vec!["cmwq.h".to_owned()];
    for entry in fs::read_dir(crate_dir().join("include/linux")).unwrap() {
        headers.push(format!("linux/{}", entry.unwrap().file_name().display()));
    }
    assert!(headers.len() > 8, "{headers:?}");
    let languages = [
        (cc(), "c", "-std=c11"),
        ("clang".into(), "c", "-std=c11"),
        ("c++".into(), "c++", "-std=c++17"),
        ("clang++".into(), "c++", "-std=c++17"),
    ];
    for header in &headers {
        // Twice: it guards itself.
        let source = folder.join("one.inc");
        fs::write(
            &source,
            format!("#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n"),
        )
        .unwrap();
        for (compiler, language, standard) in
            languages.iter().filter(|(compiler, ..)| has(compiler))
        {
            let mut command = Command::new(compiler);
            command
                .args(STRICT)
                .args([standard, "-x", language, "-fsyntax-only"])
                .args(includes());
            succeeds(command.arg(&source));
        }
    }
}
