//! Man pages and completions. Without the repair of the hyphen bash completes nothing after `serve`.

use std::process::Command;

fn nbd(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
        .args(arguments)
        .output()
        .expect("the command runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn bash_completes_options_of_subcommands() {
    let script = nbd(&["completions", "bash"]);
    let ask = r#"
        complete_line() {
            local function; function=$(complete -p "$1" | sed 's/.*-F \([^ ]*\).*/\1/')
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            "$function" "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
            printf '%s\n' "${COMPREPLY[@]}"
        }
        complete_line cmwq-nbd se; complete_line cmwq-nbd serve --ciph; complete_line cmwq-nbd bench --scen"#;
    let output = Command::new("bash")
        .args(["--norc", "-c", &format!("{script}\n{ask}")])
        .output()
        .expect("bash");
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(text, "serve\n--cipher\n--scenarios\n", "{output:?}");
}

#[test]
fn each_subcommand_has_a_man_page() {
    let folder = tempfile::tempdir().expect("a folder");
    nbd(&["man", folder.path().to_str().expect("UTF-8")]);
    for (page, word) in [
        ("cmwq-nbd.1", "block device"),
        ("cmwq-nbd-serve.1", r"\-\-key\-file"),
        ("cmwq-nbd-bench.1", r"\-\-scenarios"),
    ] {
        let text = std::fs::read_to_string(folder.path().join(page)).expect("a page");
        assert!(
            text.contains(".TH ") && text.contains(word),
            "{page}: {text}"
        );
        // The lines of examples stay lines.
        assert!(text.contains(".SH EXAMPLES\n.nf\n"), "{page}: {text}");
    }
}
