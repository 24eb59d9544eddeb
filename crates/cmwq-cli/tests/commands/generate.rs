//! Man pages and completions: they say what the help says.

use crate::common::cmwq;
use std::collections::BTreeSet;
use std::process::Command;

/// Status, output and complaints.
fn ran(arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = cmwq(arguments).output().expect("the command runs");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

/// The names of the subcommands, as the help lists them.
fn subcommands() -> BTreeSet<String> {
    let (_, help, _) = ran(&["--help"]);
    let list = help.split("Commands:\n").nth(1).expect("a list");
    list.lines()
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|&name| name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn each_subcommand_has_a_man_page_that_names_its_options() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("UTF-8");
    assert_eq!(ran(&["man", path]), (Some(0), String::new(), String::new()));
    let mut pages: BTreeSet<String> = std::fs::read_dir(path)
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("UTF-8")
        })
        .collect();
    assert!(pages.remove("cmwq.1"), "{pages:?}");
    let expected: BTreeSet<String> = subcommands()
        .iter()
        .map(|name| format!("cmwq-{name}.1"))
        .collect();
    assert!(expected.len() > 12, "{expected:?}");
    assert_eq!(pages, expected);
    for page in expected.iter().map(String::as_str).chain(["cmwq.1"]) {
        let text = std::fs::read_to_string(folder.path().join(page)).expect("a page");
        // The lines of examples stay lines.
        assert!(text.contains(".SH EXAMPLES\n.nf\n"), "{page}: {text}");
        assert!(!text.contains(".SH EXTRA"), "{page}: {text}");
    }
    for (page, word) in [
        ("cmwq-monitor.1", ".TP\nlockwt\n"),
        ("cmwq-param.1", ".TP\nwatchdog_thresh\nseconds after"),
        ("cmwq-dump.1", ".SH NOTES\n"),
        ("cmwq.1", ".SH \"EXIT STATUS\"\n"),
        ("cmwq.1", "affinity scope"),
        ("cmwq-bench.1", r"\-\-shard\-size"),
        ("cmwq-trace.1", r"\-\-seconds"),
    ] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect("a page");
        assert!(
            text.contains(".TH ") && text.contains(word),
            "{page}: {text}"
        );
        assert!(!text.contains('\u{1b}'), "{page} has colours");
    }
}

#[test]
fn bash_completes_what_the_completions_say() {
    let (code, script, errors) = ran(&["completions", "bash"]);
    assert_eq!((code, &*errors), (Some(0), ""));
    // Bash is asked what comes after `cmwq top` and after `cmwq topology --scope`.
    let ask = r#"
        complete_line() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _cmwq cmwq "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; printf '%s\n' "${COMPREPLY[@]}"; }
        complete_line cmwq top; echo; complete_line cmwq topology --fo"#;
    let output = Command::new("bash")
        .args(["--norc", "-c", &format!("{script}\n{ask}")])
        .output()
        .expect("bash");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "topology\ntop\n\n--format\n", "{output:?}");
    for shell in ["zsh", "fish"] {
        let (code, script, _) = ran(&["completions", shell]);
        assert!(code == Some(0) && script.contains("topology"), "{shell}");
    }
}

/// For a user who has none of the folders yet.
#[test]
fn the_examples_of_completions_and_man_pages_can_be_pasted() {
    let home = tempfile::tempdir().expect("a folder");
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_cmwq"));
    let programs = program.parent().expect("a folder").to_str().expect("UTF-8");
    let path = std::env::var("PATH").unwrap_or_default();
    for command in ["completions", "man"] {
        let (_, help, _) = ran(&[command, "--help"]);
        let (_, examples) = help.split_once("Examples:\n").expect("examples");
        let examples = examples.split("\n\n").next().expect("their end");
        for line in examples.lines() {
            if line.contains("zsh") || line.trim_start().starts_with("man ") {
                continue;
            }
            let output = Command::new("bash")
                .args(["--norc", "-o", "pipefail", "-c", line])
                .env("HOME", home.path())
                .env("PATH", format!("{programs}:{path}"))
                .output()
                .expect("bash");
            assert!(output.status.success(), "{line}: {output:?}");
        }
    }
    for made in [
        ".local/share/bash-completion/completions/cmwq",
        ".config/fish/completions/cmwq.fish",
        ".local/share/man/man1/cmwq-top.1",
    ] {
        assert!(home.path().join(made).exists(), "{made}");
    }
}

#[test]
fn what_cannot_be_generated_is_refused_in_a_line() {
    for (arguments, status) in [
        (&["completions", "tcl"][..], 2),
        (&["man", "/nowhere"], 1),
        (&["man"], 2),
    ] {
        let (code, out, errors) = ran(arguments);
        assert_eq!(
            (code, &*out, errors.lines().count()),
            (Some(status), "", 1),
            "{errors}"
        );
    }
}
