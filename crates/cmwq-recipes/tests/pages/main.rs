//! The documentation says what is there: each link, path, name, command and option in a page is
//! looked up in the sources.
//!
//! Seen to fail: a link to a missing file and to a missing heading, a made-up path, function, type,
//! method, variable, command and option (`made_up_names_are_found`); a decision without a state; a
//! changed figure of the chart; an excuse that no page needs; a block of Rust with hidden lines.

mod foreign;
mod page;
mod rules;
mod sources;

use std::fs;
use std::path::Path;

use page::Page;
use rules::Rules;
use sources::{Sources, files};

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// All pages of the project, with their paths from its root.
fn pages() -> Vec<Page> {
    let pages = files(root());
    let pages = pages.iter().filter(|path| path.ends_with(".md"));
    // What a release changed is history: its names need not be there any more.
    let pages = pages.filter(|path| *path != "CHANGELOG.md");
    let read = |path: &String| {
        Page::new(
            path,
            &fs::read_to_string(root().join(path)).expect("a page"),
        )
    };
    pages.map(read).collect()
}

#[test]
fn what_a_page_names_is_there() {
    let (sources, pages) = (Sources::read(root()), pages());
    assert!(pages.len() >= 20, "{}", pages.len());
    let rules = Rules::new(&sources, &pages);
    let complaints: Vec<_> = pages.iter().flat_map(|page| rules.check(page)).collect();
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn made_up_names_are_found() {
    let sources = Sources::read(root());
    let wrong = [
        "[a page](no-such-page.md)",
        "[a heading](guide.md#no-such-heading)",
        "[a heading of this page](#no-such-heading)",
        "![a picture](no-such-picture.svg)",
        "[in the repository](https://github.com/cmwq/cmwq/blob/HEAD/docs/no-such-page.md)",
        "[a heading there](https://github.com/cmwq/cmwq/blob/HEAD/docs/guide.md#no-such-heading)",
        "`crates/cmwq/src/no_such_file.rs`",
        "`pool/no_such_file.rs`",
        "`no_such_file.rs`",
        "`scripts/no-such-script`",
        "`no_such_function`",
        "`no_such_function()`",
        "`NoSuchType`",
        "`Workqueue::no_such_method`",
        "`Workqueue::no_such_method(3)`",
        "`NO_SUCH_CONSTANT`",
        "`struct no_such_struct`",
        "`CMWQ_NO_SUCH_VARIABLE=1`",
        "`cmwq_no_such_prefix_*`",
        "`cmwq no-such-command`",
        "`cmwq bench --no-such-option`",
        "`--no-such-option`",
        "`cargo run --example no_such_example`",
        "`cargo run -p cmwq --example batch_cost`",
        "`cargo run --bin batch_cost`",
        "`cargo test -p no-such-crate`",
        "`<linux/no_such_header.h>`",
        "```sh\ncmwq no-such-command\n```",
        "```sh\ncmwq-nbd serve --no-such-option   # what it does\n```",
        "```sh\ncc crates/no-such-file.c -o program\n```",
    ];
    for text in wrong {
        let pages = [
            Page::new("docs/made-up.md", text),
            Page::new("docs/guide.md", "# A guide"),
        ];
        let complaints = Rules::new(&sources, &pages).check(&pages[0]);
        assert_eq!(complaints.len(), 1, "{text}: {complaints:?}");
    }
    let right = "# A page\n\n[itself](#a-page), [the guide](guide.md#a-guide), `Workqueue::spawn`, `.ci/run`, `lib.rs`, `cmwq bench --items 5`, \
        `queue_work`, `CMWQ_CPU_LIMIT=none`, `cmwq_cq_*`, `pool/PROTOCOL.md`\n\n```sh\ncmwq top -p 3   # --no-such-option\n```\n";
    let pages = [
        Page::new("docs/made-up.md", right),
        Page::new("docs/guide.md", "# A guide"),
    ];
    let complaints = Rules::new(&sources, &pages).check(&pages[0]);
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// A reader of the text sees lines that rustdoc hides, and cannot compile them.
#[test]
fn rust_of_a_page_can_be_pasted() {
    let (mut blocks, mut complaints) = (0, Vec::new());
    // Which shows parts of programs, and says of which.
    for page in pages()
        .iter()
        .filter(|page| page.path != "docs/adopting.md")
    {
        for block in page.text.split("\n```rust\n").skip(1) {
            let block = block.split("\n```").next().expect("its end");
            blocks += 1;
            if !block.contains("fn main()") || block.lines().any(|line| line.starts_with("# ")) {
                complaints.push(format!("{}: no whole program:\n{block}", page.path));
            }
        }
    }
    assert!(blocks >= 8, "{blocks}");
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

#[test]
fn no_name_is_excused_in_vain() {
    let pages = pages();
    let quoted: Vec<_> = pages.iter().flat_map(|page| page.quotes()).collect();
    let quoted: Vec<_> = quoted
        .iter()
        .map(|(_, quote)| format!("{quote:?}"))
        .collect();
    for name in foreign::names() {
        let needed = quoted.iter().any(|quote| quote.contains(name));
        assert!(needed, "{name}: no page has it");
    }
}

#[test]
fn decisions_have_a_state() {
    let pages = pages();
    let mut decisions = 0;
    for page in pages
        .iter()
        .filter(|page| page.path.starts_with("docs/decisions/"))
    {
        let states = [
            "\nState: accepted",
            "\nState: superseded by [",
            "\nState: proposed",
        ];
        assert!(
            states.iter().any(|state| page.text.contains(state)),
            "{}: no state",
            page.path
        );
        decisions += 1;
    }
    assert!(decisions > 0);
}

/// The picture in docs/architecture.md has the layers that `crates/cmwq/tests/layers.rs` checks, in
/// their order.
#[test]
fn the_picture_has_the_layers() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("a file");
    let check = read("crates/cmwq/tests/layers.rs");
    let (_, layers) = check
        .split_once("const LAYERS: &[&str] = &[")
        .expect("the layers");
    let layers = layers.split("];").next().expect("their end");
    let layers = layers.split('"').skip(1).step_by(2);
    // A part of a folder is drawn for the pool only; files at the top are not drawn.
    let folder = |layer: &&str| root().join("crates/cmwq/src").join(layer).is_dir();
    let drawn =
        |layer: &&str| layer.starts_with("pool/") || !layer.contains('/') && *layer != "pool";
    let mut layers: Vec<_> = layers.filter(folder).filter(drawn).collect();
    layers.reverse();

    let page = read("docs/architecture.md");
    let (_, picture) = page.split_once("```text\n").expect("the picture");
    let picture = picture.split("```").next().expect("its end");
    let lines = picture
        .lines()
        .filter_map(|line| line.strip_prefix(' ')?.split_once("/ "));
    let picture: Vec<_> = lines
        .map(|(layer, _)| layer)
        .filter(|layer| !layer.contains(' '))
        .collect();
    assert_eq!(picture, layers);
}

#[test]
fn every_script_has_a_help_with_an_example_and_refuses_unknown_options() {
    let files = files(root());
    let scripts = files.iter().filter(|path| {
        path.starts_with("scripts/") || path.starts_with(".ci/") || path.ends_with("/install")
    });
    let scripts: Vec<_> = scripts.collect();
    assert!(scripts.len() >= 20, "{scripts:?}");
    for path in scripts {
        let run = |option| {
            let script = std::process::Command::new(root().join(path))
                .arg(option)
                .output();
            let output = script.expect("a script");
            (
                output.status.code(),
                String::from_utf8_lossy(&output.stdout).into_owned(),
            )
        };
        assert_eq!(run("--no-such-option").0, Some(2), "{path}");
        let (status, help) = run("--help");
        assert_eq!(status, Some(0), "{path}");
        // The one without options needs none.
        assert!(
            help.contains("xample") || path == ".ci/run",
            "{path}: {help}"
        );
    }
}

/// What a developer's shell holds must not change what is tested or measured.
#[test]
fn scripts_that_clear_the_environment_clear_every_parameter() {
    let settings = cmwq::Engine::parameter_settings();
    let variables = settings.iter().filter_map(|setting| setting.variable);
    let variables: Vec<_> = variables
        .chain([cmwq::topology::TOPOLOGY_VARIABLE])
        .collect();
    let mut clearing = 0;
    for path in files(root()) {
        if !path.starts_with("scripts/") && !path.starts_with(".ci/") || path.ends_with('/') {
            continue;
        }
        let text = fs::read_to_string(root().join(&path)).expect("a script");
        let text = text.replace("\\\n", " ");
        let Some(line) = text.lines().find(|line| line.starts_with("unset CMWQ_")) else {
            continue;
        };
        clearing += 1;
        for variable in &variables {
            let clears = line.split_whitespace().any(|word| word == *variable);
            assert!(clears, "{path} leaves {variable}");
        }
    }
    assert!(clearing >= 4, "{clearing}");
}

#[test]
fn an_exploration_that_is_refused_says_why_and_counts_nothing() {
    let folder = std::env::temp_dir().join(format!("cmwq-explored-{}", std::process::id()));
    fs::create_dir_all(folder.join("release")).expect("a folder");
    // In the place of the programs that the script calls.
    let program = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a program");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs::set_permissions(path, mode).expect("its mode");
    };
    program("cargo", "exit 0");
    let explore = |text: &str, seconds: &str| {
        program("release/cmwq-sim", text);
        let path = std::env::var("PATH").expect("a path");
        let output = std::process::Command::new(root().join("scripts/explore"))
            .arg(seconds)
            .env("PATH", format!("{}:{path}", folder.display()))
            .env("CARGO_TARGET_DIR", &folder)
            .env("CMWQ_EXPLORED", folder.join("explored"))
            .output()
            .expect("the script runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let explored = fs::read_to_string(folder.join("explored")).ok();
        (output.status.code(), said, explored)
    };
    let refused = explore("echo 'cmwq-sim: no fault rain' >&2; exit 2", "5");
    let said = "cmwq-sim: no fault rain\n".to_owned();
    assert_eq!(refused, (Some(2), said, None));
    let found = explore("echo 'explored 7 seeds, 1 failures'; exit 1", "09");
    assert_eq!(found, (Some(1), String::new(), Some("7\n".to_owned())));
    fs::write(folder.join("explored"), "some").expect("a file");
    let (status, said, _) = explore("exit 0", "5");
    assert!(status == Some(2) && said.contains("no number"), "{said}");
    fs::remove_dir_all(folder).expect("it goes");
}
