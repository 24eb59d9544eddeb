//! Small programs under schedules with a guarantee: the library keeps its promises in some runs of
//! many of them, a seed is a seed, and a search goes on where it stopped. `scripts/explore` runs
//! all of them for hours; the museum's pieces show that they find what is broken.

use std::path::Path;
use std::process::Command;

fn corpus(arguments: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-sim"))
        .arg("corpus")
        .args(arguments)
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&said).into_owned(),
    )
}

/// Where a process cannot go back, each run has one of its own.
#[test]
fn runs_are_the_same_in_processes_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let run = |forks: bool, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq-sim"));
        command.args(["corpus", "--programs", "queue+cancel-sync"]);
        if forks {
            command.env("CMWQ_CORPUS_FORKS", "1");
        }
        let output = command.args(more).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let seeds = ["--seed", "7,8,7"];
    let logs = run(false, &seeds);
    assert_eq!(logs.lines().count(), 3, "{logs}");
    assert_eq!(run(true, &seeds), logs);
    // Batches of seeds, and what was learned of them.
    let [own, shared] = [true, false].map(|forks| {
        let state = folder.path().join(forks.to_string());
        run(
            forks,
            &["--runs", "200", "--state", state.to_str().unwrap()],
        );
        std::fs::read_to_string(state).unwrap()
    });
    assert_eq!(own, shared);
}

fn operations() -> Vec<String> {
    let (status, said) = corpus(&["--operations"]);
    assert_eq!(status, Some(0), "{said}");
    let words = said
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    let mut names: Vec<String> = words.map(str::to_owned).collect();
    // The last line counts them.
    assert_eq!(names.pop(), Some(names.len().to_string()));
    names
}

#[test]
fn promises_are_kept_beside_each_operation() {
    let names = operations();
    let beside = names.iter().zip(names.iter().cycle().skip(1));
    let twice = names.iter().zip(&names);
    let pairs: Vec<String> = beside
        .chain(twice)
        .map(|(a, b)| format!("{a}+{b}"))
        .collect();
    let (status, said) = corpus(&["--programs", &pairs.join(","), "--runs", "4", "--jobs", "2"]);
    assert_eq!(status, Some(0), "{said}");
    let all = format!("of {0} programs {0} have been run", pairs.len());
    assert!(said.contains(&all), "{said}");
}

#[test]
fn one_seed_is_one_log_under_each_scheduler() {
    for scheduler in ["time", "pct", "walk"] {
        let run = |seed: &str| {
            let program = ["--programs", "queue+cancel-sync+flush-item"];
            let how = ["--scheduler", scheduler, "--depth", "3", "--seed", seed];
            let (status, said) = corpus(&[program.as_slice(), &how].concat());
            assert_eq!(status, Some(0), "{scheduler}: {said}");
            said
        };
        assert_eq!(run("7"), run("7"), "{scheduler}");
        assert_ne!(run("7"), run("8"), "{scheduler}");
    }
}

#[test]
fn a_seed_has_the_same_log_whatever_was_run_before_it() {
    let others: Vec<String> = (100..200).map(|seed| seed.to_string()).collect();
    for scheduler in ["time", "pct", "walk"] {
        for program in ["queue+cancel-sync", "execute+attrs-once"] {
            let seeds = format!("7,{},7", others.join(","));
            let how = ["--scheduler", scheduler, "--seed", &seeds];
            let (status, said) = corpus(&[["--programs", program].as_slice(), &how].concat());
            assert_eq!(status, Some(0), "{program} {scheduler}: {said}");
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!((lines.len(), lines[0]), (102, lines[101]), "{scheduler}");
            assert_ne!(lines[0], lines[1]);
        }
    }
}

/// An oracle may expect nothing of an instance of which the thread does not know by the memory model,
/// though it was queued earlier.
#[test]
fn with_a_weak_memory_a_flush_covers_what_its_thread_knows_of_and_rest_is_rest() {
    let programs = "queue-twice+flush-item,enable-and-queue+flush-item,move-delayed+execute-bh";
    let (status, said) = corpus(&["--programs", programs, "--weak", "--runs", "64"]);
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn one_seed_is_one_log_with_a_weak_memory_and_the_state_tells_them_apart() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let state = state.to_str().unwrap();
    let run = |more: &[&str]| {
        let program = ["--programs", "queue-twice+cancel-sync"];
        let (status, said) = corpus(&[program.as_slice(), more].concat());
        assert_eq!(status, Some(0), "{said}");
        said
    };
    assert_eq!(
        run(&["--weak", "--seed", "7"]),
        run(&["--weak", "--seed", "7"])
    );
    run(&["--weak", "--runs", "3", "--state", state]);
    run(&["--runs", "2", "--state", state]);
    assert!(run(&["--weak", "--runs", "5", "--state", state]).starts_with("2 runs in "));
    let told = std::fs::read_to_string(state).unwrap();
    assert!(
        told.contains("queue-twice+cancel-sync pct,weak 2 5 "),
        "{told}"
    );
    assert!(told.contains("queue-twice+cancel-sync pct 2 2 "), "{told}");
}

#[test]
fn a_search_goes_on_where_it_stopped() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let run = |runs: &str| {
        let state = state.to_str().unwrap();
        let programs = ["--programs", "execute+execute,queue+cancel"];
        let (status, said) =
            corpus(&[programs.as_slice(), &["--runs", runs, "--state", state]].concat());
        assert_eq!(status, Some(0), "{said}");
        said
    };
    assert!(run("3").starts_with("6 runs in "), "three of each");
    assert!(run("5").starts_with("4 runs in "), "two more of each");
    assert!(run("5").starts_with("0 runs in "), "all have been run");
    let told = std::fs::read_to_string(&state).unwrap();
    let line = told
        .lines()
        .find(|line| line.starts_with("execute+execute pct 2 5 "));
    assert!(line.is_some(), "{told}");
}

#[test]
fn a_search_goes_on_to_the_bound_of_the_longest_run_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let head = "program scheduler depth runs needed threads steps failed";
    // More than the program's size at its beginning asks for.
    std::fs::write(
        &state,
        format!("{head}\nqueue+cancel pct 1 10 100 14 500 -\n"),
    )
    .unwrap();
    let program = ["--programs", "queue+cancel", "--depth", "1"];
    let more = ["--state", state.to_str().unwrap()];
    let (status, said) = corpus(&[program.as_slice(), &more].concat());
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("90 runs in "), "{said}");
    assert!(said.contains("1 to the bound of depth 1"), "{said}");
}

#[test]
fn what_is_no_state_and_what_is_no_program_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    std::fs::write(&other, "something else\n").unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    for arguments in [
        vec!["--programs", "queue+nothing"],
        vec!["--programs", "queue+queue+queue+queue"],
        vec!["--scheduler", "luck"],
        vec!["--seed", "1"],
        vec!["--programs", "queue+cancel", "--state", &path(&other)],
    ] {
        let (status, said) = corpus(&arguments);
        assert_eq!(status, Some(2), "{arguments:?}: {said}");
    }
}
