//! The header and the library say the same, and every header compiles by itself without a warning,
//! in C and C++.

mod common;

use cmwq::affinity::AffinityScope;
use common::{
    DECLARING, STRICT, built, cc, crate_dir, declared, folder, has_or_says, includes, succeeds,
};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

#[test]
fn the_library_exports_what_the_header_declares_and_nothing_else() {
    let declared: BTreeSet<String> = DECLARING
        .iter()
        .flat_map(|name| {
            let path = crate_dir().join("include").join(name);
            declared(&fs::read_to_string(path).unwrap())
        })
        .collect();
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

/// How many columns a line takes on a terminal.
fn columns(line: &str) -> usize {
    line.chars().fold(0, |columns, c| match c {
        '\t' => columns / 8 * 8 + 8,
        _ => columns + 1,
    })
}

/// What people open in an editor beside their own code. Seen to fail: a longer line in a header of
/// each folder.
#[test]
fn the_lines_of_all_headers_fit_a_screen() {
    let include = crate_dir().join("include");
    let mut broad = Vec::new();
    for folder in [".", "linux", "linux/sched"] {
        for entry in fs::read_dir(include.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap();
            let long = text.lines().filter(|line| columns(line) > 100);
            broad.extend(long.map(|line| format!("{}: {line}", path.display())));
        }
    }
    assert!(broad.is_empty(), "{}", broad.join("\n"));
}

/// Both headers have a constant for each line in the library's table of scopes.
#[test]
fn every_scope_has_its_number_in_c() {
    let [ours, kernels] = ["cmwq.h", "linux/workqueue.h"].map(|name| {
        let path = crate_dir().join("include").join(name);
        fs::read_to_string(path).unwrap()
    });
    for scope in AffinityScope::ALL {
        let name = match scope {
            AffinityScope::Default => "DFL".to_owned(),
            named => named.name().to_uppercase(),
        };
        let number = format!("\tCMWQ_AFFN_{name} = {}", scope.index());
        assert!(ours.contains(&number), "cmwq.h has no {number:?}");
        let same = format!("\tWQ_AFFN_{name} = CMWQ_AFFN_{name},");
        assert!(kernels.contains(&same), "linux/workqueue.h has no {same:?}");
    }
}

#[test]
fn the_library_has_its_name_and_stays_in_memory() {
    let mut readelf = Command::new("readelf");
    readelf.arg("-d").arg(built().join("libcmwq_capi.so"));
    let text = succeeds(&mut readelf);
    assert!(text.contains("[libcmwq.so.1]"), "{text}");
    assert!(text.contains("NODELETE"), "{text}");
}

/// A compiler, what it is told that a file is in, and by which standard.
type Language = (String, &'static str, &'static str);

/// Those whose compiler is here.
fn there<const N: usize>(languages: [Language; N]) -> Vec<Language> {
    let mut there = languages.to_vec();
    there.retain(|(compiler, ..)| has_or_says(compiler));
    there
}

/// A compiler takes this source in that language, without a warning.
fn compiles((compiler, language, standard): &Language, source: &Path) {
    let mut command = Command::new(compiler);
    command
        .args(STRICT)
        .args([standard, "-x", language, "-fsyntax-only"])
        .args(includes());
    succeeds(command.arg(source));
}

/// All headers that programs include, in the order of their names.
fn headers() -> Vec<String> {
    let mut headers = DECLARING.map(str::to_owned).to_vec();
    for folder in ["linux", "linux/sched"] {
        for entry in fs::read_dir(crate_dir().join("include").join(folder)).unwrap() {
            let name = entry.unwrap().file_name();
            if name != "sched" {
                headers.push(format!("{folder}/{}", name.display()));
            }
        }
    }
    headers.sort_unstable();
    assert!(headers.len() > 8, "{headers:?}");
    headers
}

/// What programs may include afterwards: the names of the kernel's must not be in the way.
const BEHIND_THEM: &str = "\
#ifdef __cplusplus
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <regex>
#include <shared_mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <variant>
#if __cplusplus >= 202002L
#include <barrier>
#include <latch>
#include <ranges>
#include <semaphore>
#include <span>
#endif
#endif
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <search.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
int main(void) { return 0; }
";

#[test]
fn all_headers_go_together_in_any_order() {
    let folder = folder("headers-together");
    let ascending = headers();
    let descending = ascending.iter().rev().cloned().collect();
    let count = ascending.len();
    // Each once, since the stride is a prime that is no divisor of their number.
    let stride = [31, 37]
        .into_iter()
        .find(|stride| !count.is_multiple_of(*stride));
    let stride = stride.expect("one of two primes is no divisor of so small a number");
    let mixed = (0..count).map(|i| ascending[i * stride % count].clone());
    let orders: [Vec<String>; 3] = [ascending.clone(), descending, mixed.collect()];
    let languages = there([
        (cc(), "c", "-std=c11"),
        (cc(), "c", "-std=gnu17"),
        ("c++".into(), "c++", "-std=c++17"),
        ("c++".into(), "c++", "-std=c++20"),
        ("clang".into(), "c", "-std=c11"),
        ("clang++".into(), "c++", "-std=c++20"),
    ]);
    for (i, order) in orders.iter().enumerate() {
        let source = folder.join(format!("order-{i}.inc"));
        let lines = order.iter().map(|header| format!("#include <{header}>\n"));
        let text = lines.collect::<String>() + BEHIND_THEM;
        fs::write(&source, text).unwrap();
        for language in &languages {
            compiles(language, &source);
        }
    }
}

/// The names of parameters, of templates and of locals do not come out of the headers, but macros of
/// the program come in.
#[test]
fn no_header_uses_a_short_name_that_may_be_a_macro() {
    let folder = folder("headers-short-names");
    let names = crate_dir().join("tests/cpp/short_names.h");
    let languages = there([
        (cc(), "c", "-std=gnu17"),
        ("c++".into(), "c++", "-std=c++17"),
        ("clang++".into(), "c++", "-std=c++20"),
    ]);
    for language in &languages {
        let mut text = format!("#include \"{}\"\n", names.display());
        if language.1 == "c++" {
            text += "#include <cmwq.hpp>\n";
        }
        text.extend(headers().iter().map(|name| format!("#include <{name}>\n")));
        let source = folder.join("all.inc");
        fs::write(&source, text + "int main(void) { return 0; }\n").unwrap();
        compiles(language, &source);
    }
}

#[test]
fn every_header_compiles_by_itself() {
    let folder = folder("headers");
    let headers = headers();
    let languages = there([
        (cc(), "c", "-std=c11"),
        ("clang".into(), "c", "-std=c11"),
        ("c++".into(), "c++", "-std=c++17"),
        ("clang++".into(), "c++", "-std=c++17"),
    ]);
    let languages_of = |header: &str| {
        let fits = |language: &&Language| !header.ends_with(".hpp") || language.1 == "c++";
        languages.iter().filter(fits).cloned().collect::<Vec<_>>()
    };
    let parts = fs::read_dir(crate_dir().join("include")).unwrap();
    let parts = parts.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let parts = parts.filter(|name| name.ends_with(".hpp"));
    for header in headers.into_iter().chain(parts) {
        // Twice: it guards itself.
        let source = folder.join("one.inc");
        fs::write(
            &source,
            format!("#include <{header}>\n#include <{header}>\nint main(void) {{ return 0; }}\n"),
        )
        .unwrap();
        for language in languages_of(&header) {
            compiles(&language, &source);
        }
    }
}

#[test]
fn every_header_is_in_the_table_of_the_documentation() {
    let page = fs::read_to_string(crate_dir().join("../../docs/c.md")).unwrap();
    let ours = |name: &&str| !name.starts_with("cmwq_");
    let headers = headers();
    let names = headers
        .iter()
        .filter_map(|name| name.strip_prefix("linux/"));
    let missing: Vec<&str> = names
        .filter(ours)
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
}
