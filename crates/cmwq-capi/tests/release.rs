//! What a release needs of the manifests: one version everywhere, complete descriptions, licences
//! that go with ours.
//!
//! Sabotage tried: another version in cmwq.h, a published crate without a description or a licence
//! file, `publish = false` taken from cmwq-vm, the workspaces inside not excluded each fail a test
//! here.

mod common;

use common::{crate_dir, folder};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// In the order in which they are published.
const PUBLISHED: [&str; 8] = [
    "cmwq-topology",
    "cmwq-trace",
    "cmwq",
    "cmwq-control",
    "cmwq-command",
    "cmwq-loads",
    "cmwq-cli",
    "cmwq-nbd",
];

/// Licences that a dependency may be used under.
const PERMISSIVE: [&str; 11] = [
    "MIT",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "OpenSSL",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
    "0BSD",
];

fn root() -> PathBuf {
    crate_dir().join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn packages(options: &[&str]) -> Vec<Value> {
    packages_of(&root(), &[&["--locked"], options].concat())
}

/// The packages that cargo finds for the workspace in a folder.
fn packages_of(folder: &Path, options: &[&str]) -> Vec<Value> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--offline"])
        .args(options)
        .current_dir(folder)
        .output()
        .expect("cargo");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    metadata["packages"].as_array().expect("a list").clone()
}

#[test]
fn the_version_is_the_same_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    for package in packages(&["--no-deps"]) {
        assert_eq!(package["version"], version, "{}", package["name"]);
        let ours = package["dependencies"].as_array().expect("a list");
        for dependency in ours.iter().filter(|&d| !d["path"].is_null()) {
            assert_eq!(dependency["req"], format!("^{version}"), "{dependency}");
        }
    }
    let header = read("crates/cmwq-capi/include/cmwq.h");
    let numbers = ["MAJOR", "MINOR", "PATCH"].map(|part| {
        let name = format!("#define CMWQ_VERSION_{part} ");
        let line = header.lines().find_map(|line| line.strip_prefix(&name));
        line.expect("a number").to_owned()
    });
    assert_eq!(numbers.join("."), version, "cmwq.h");
    let changelog = read("CHANGELOG.md");
    assert!(
        changelog.contains(&format!("## [{version}]")),
        "CHANGELOG.md"
    );
    let minor = version.rsplit_once('.').expect("dots").0;
    assert!(read("README.md").contains(&format!("Version {minor}")));
}

#[test]
fn what_is_published_says_all_that_crates_io_and_docs_rs_want() {
    let mut published = BTreeSet::new();
    for package in packages(&["--no-deps"]) {
        let name = package["name"].as_str().expect("a name");
        if package["publish"] == Value::Array(Vec::new()) {
            continue;
        }
        published.insert(name.to_owned());
        for field in [
            "description",
            "license",
            "repository",
            "readme",
            "rust_version",
        ] {
            let text = package[field].as_str();
            assert!(text.is_some_and(|text| !text.is_empty()), "{name}: {field}");
        }
        let words = |field: &str| -> Vec<String> {
            let list = package[field].as_array().expect("a list");
            list.iter()
                .map(|w| w.as_str().expect("a word").to_owned())
                .collect()
        };
        let (keywords, categories) = (words("keywords"), words("categories"));
        assert!((1..=5).contains(&keywords.len()), "{name}: {keywords:?}");
        assert!(
            (1..=5).contains(&categories.len()),
            "{name}: {categories:?}"
        );
        assert!(
            keywords.iter().all(|word| word.len() <= 20),
            "{name}: {keywords:?}"
        );
        let folder = Path::new(package["manifest_path"].as_str().expect("a path"))
            .parent()
            .expect("a folder");
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = fs::read_to_string(folder.join(licence)).unwrap_or_default();
            assert_eq!(text, read(licence), "{name}: {licence}");
        }
        // crates.io takes links for relative to the crate's folder in the repository, wherever the file is.
        let readme = fs::read_to_string(folder.join("README.md")).expect("a page");
        assert_eq!(package["readme"], "README.md", "{name}");
        let mut links = readme.split("](").skip(1);
        assert!(links.all(|link| link.starts_with("https://")), "{name}");
        // A crate that is published may only depend on crates that are.
        for dependency in package["dependencies"].as_array().expect("a list") {
            let path = dependency["path"].as_str();
            let other = dependency["name"].as_str().expect("a name");
            assert!(
                path.is_none() || PUBLISHED.contains(&other),
                "{name} needs {other}"
            );
        }
        // Each is documented in the crate's documentation.
        let features = package["features"].as_object().expect("a table");
        let documented: &[&str] = match name {
            "cmwq" => &["tracing"],
            "cmwq-loads" => &["real"],
            _ => &[],
        };
        let features: Vec<&str> = features.keys().map(String::as_str).collect();
        assert_eq!(features, documented, "{name}");
    }
    assert_eq!(published, PUBLISHED.map(str::to_owned).into());
}

/// A package of this name and version with nothing in it.
fn write_package(folder: &Path, name: &str, version: &str, rest: &str) {
    fs::create_dir_all(folder.join("src")).expect("a folder");
    fs::write(folder.join("src/lib.rs"), "").expect("a file");
    let about = format!("name = {name:?}\nversion = {version:?}\nedition = \"2024\"");
    let manifest = format!("[package]\n{about}\n{rest}");
    fs::write(folder.join("Cargo.toml"), manifest).expect("a file");
}

/// cargo looks for the workspace of a package in those that it has loaded already, and only then in
/// the folders above it.
#[test]
fn a_program_may_depend_on_the_library_and_on_a_drop_in() {
    let folder = folder("both");
    let checkout = root().canonicalize().expect("a folder");
    let mut rest = format!(
        "[workspace]\n[dependencies]\ncmwq = {{ path = {:?} }}\nblocking = {{ path = {:?} }}\n[patch.crates-io]\n",
        checkout.join("crates/cmwq"),
        checkout.join("dropins/blocking"),
    );
    // What the drop-in needs may not be on this machine: empty packages stand for it.
    for (name, version) in [
        ("async-task", "4.4.0"),
        ("futures-io", "0.3.28"),
        ("futures-lite", "2.0.0"),
        ("piper", "0.2.0"),
    ] {
        let empty = folder.join(name);
        write_package(&empty, name, version, "[features]\nstd = []\n");
        rest += &format!("{name} = {{ path = {empty:?} }}\n");
    }
    write_package(&folder, "both", "0.0.0", &rest);
    // With the versions that are here already.
    fs::copy(root().join("Cargo.lock"), folder.join("Cargo.lock")).expect("a file");
    let all = packages_of(&folder, &["--filter-platform=x86_64-unknown-linux-gnu"]);
    for name in ["cmwq", "blocking"] {
        assert!(all.iter().any(|package| package["name"] == name), "{name}");
    }
}

/// The parts of a licence expression around a word, outside of parentheses.
fn parts<'a>(expression: &'a str, word: &str) -> Vec<&'a str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, byte) in expression.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            _ if depth == 0 && at >= begin && expression[at..].starts_with(word) => {
                parts.push(&expression[begin..at]);
                begin = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(&expression[begin..]);
    parts
}

/// Whether one of the alternatives of a licence expression is permitted.
fn is_permissive(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    parts(&expression, " OR ").iter().any(|alternative| {
        let all = parts(alternative, " AND ");
        all.iter().all(|part| {
            let inner = part
                .strip_prefix('(')
                .and_then(|part| part.strip_suffix(')'));
            inner.map_or_else(|| PERMISSIVE.contains(part), is_permissive)
        })
    })
}

#[test]
fn every_dependency_has_a_permissive_licence() {
    for (expression, expected) in [
        ("MIT OR Apache-2.0", true),
        ("Unlicense/MIT", true),
        ("GPL-2.0-only", false),
        ("GPL-2.0-only OR MIT", true),
        ("ISC AND GPL-2.0-only", false),
        ("(MIT OR ISC) AND GPL-2.0-only", false),
        ("(GPL-2.0-only OR ISC) AND MIT", true),
    ] {
        assert_eq!(is_permissive(expression), expected, "{expression}");
    }
    let all = packages(&["--filter-platform=x86_64-unknown-linux-gnu"]);
    assert!(all.len() > 50, "{}", all.len());
    for package in all {
        let licence = package["license"].as_str().unwrap_or("none");
        assert!(is_permissive(licence), "{}: {licence}", package["name"]);
    }
}

/// Each crate that a program is made of is listed once, with a licence and, if it is from
/// crates.io, the checksum of its source; and what depends on what names crates that are listed.
/// Nothing of this machine is in it.
///
/// Sabotage tried: a crate left out, no checksums, a path of the workspace in the list.
#[test]
fn a_bill_of_materials_lists_what_the_lock_file_has() {
    let lock = read("Cargo.lock");
    for name in ["cmwq-cli", "cmwq-nbd", "cmwq-capi"] {
        let output = Command::new(root().join("scripts/sbom"))
            .arg(name)
            .output()
            .expect("it runs");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        let text = String::from_utf8(output.stdout).expect("text");
        let folder = root().canonicalize().expect("a folder");
        assert!(!text.contains(folder.to_str().expect("text")), "{name}");
        let list: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(list["bomFormat"], "CycloneDX");
        assert_eq!(list["metadata"]["component"]["name"], name);
        let components = list["components"].as_array().expect("a list");
        let refs = components.iter().chain([&list["metadata"]["component"]]);
        let refs: Vec<&str> = refs
            .filter_map(|crate_| crate_["bom-ref"].as_str())
            .collect();
        assert_eq!(refs.len(), components.len() + 1);
        assert_eq!(refs.iter().collect::<BTreeSet<_>>().len(), refs.len());
        for listed in components {
            let (crate_, version) = (&listed["name"], &listed["version"]);
            let entry = format!("name = {crate_}\nversion = {version}\n");
            let at = lock.find(&entry).unwrap_or_else(|| panic!("{entry}"));
            let entry = lock[at..].split("\n\n").next().expect("an entry");
            assert!(listed["licenses"][0]["expression"].is_string(), "{listed}");
            match entry.split_once("checksum = ") {
                Some((_, sum)) => {
                    let listed = listed["hashes"][0]["content"].as_str().expect("a checksum");
                    let sum = sum.lines().next().expect("a line");
                    assert_eq!(sum.trim_matches('"'), listed);
                }
                None => assert!(!entry.contains("source = "), "{entry}"),
            }
        }
        let edges = list["dependencies"].as_array().expect("a list");
        assert_eq!(edges.len(), refs.len());
        assert!(edges.iter().any(|edge| {
            edge["dependsOn"]
                .as_array()
                .is_some_and(|on| !on.is_empty())
        }));
        for named in edges
            .iter()
            .flat_map(|edge| edge["dependsOn"].as_array().expect("a list"))
        {
            assert!(refs.contains(&named.as_str().expect("text")), "{named}");
        }
    }
}
