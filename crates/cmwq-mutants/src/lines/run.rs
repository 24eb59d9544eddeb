//! Runs what reaches a place, with the place changed, until something fails.

use super::build::Built;
use super::sites::{Kind, Mutant};
use crate::copy::{self, Verdict, failed};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

/// A test that takes longer has no end.
const LONGEST: Duration = Duration::from_secs(60);

/// Tests with real threads are run for each mutant as long as they take no longer than this in all,
/// the shortest ones first.
const REAL: Duration = Duration::from_secs(12);

/// What came of a mutant.
#[derive(Clone)]
struct Outcome {
    by: String,
    how: String,
}

const NOTHING: &str = "nothing";
const NOT_REACHED: &str = "not reached";

/// What was found so far, in a file.
pub(crate) struct Results {
    path: PathBuf,
    of: BTreeMap<(String, &'static str), Outcome>,
}

const KINDS: [Kind; 4] = [Kind::Deleted, Kind::True, Kind::False, Kind::Bound];

impl Results {
    pub(crate) fn read(path: &Path) -> io::Result<Results> {
        let mut of = BTreeMap::new();
        for line in fs::read_to_string(path).unwrap_or_default().lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            let [key, kind, by, how] = fields[..] else {
                return Err(failed(&format!("{}: no result: {line}", path.display())));
            };
            let Some(kind) = KINDS.iter().find(|known| known.name() == kind) else {
                return Err(failed(&format!("{}: no kind: {kind}", path.display())));
            };
            let (by, how) = (by.to_owned(), how.to_owned());
            of.insert((key.to_owned(), kind.name()), Outcome { by, how });
        }
        let path = path.to_owned();
        Ok(Results { path, of })
    }

    pub(crate) fn knows(&self, mutant: &Mutant, again: bool) -> bool {
        let known = self.of.get(&(mutant.key.clone(), mutant.kind.name()));
        known.is_some_and(|known| !(again && [NOTHING, NOT_REACHED].contains(&known.by.as_str())))
    }

    fn note(&mut self, mutant: &Mutant, outcome: Outcome) -> io::Result<()> {
        let how = outcome.how.replace(['\t', '\n'], " ");
        let line = [&mutant.key, mutant.kind.name(), &outcome.by, &how].join("\t");
        let mut file = fs::File::options();
        let mut file = file.append(true).create(true).open(&self.path)?;
        writeln!(file, "{line}")?;
        let key = (mutant.key.clone(), mutant.kind.name());
        self.of.insert(key, outcome);
        Ok(())
    }

    /// How many were found by what, and those that were not.
    pub(crate) fn table(&self, is_wanted: impl Fn(&str) -> bool) -> String {
        let file_of = |key: &str| key.split('|').next().unwrap_or_default().to_owned();
        let wanted = self
            .of
            .iter()
            .filter(|((key, _), _)| is_wanted(&file_of(key)));
        let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
        let mut rows = String::new();
        for ((key, kind), outcome) in wanted {
            *numbers.entry(&outcome.by).or_default() += 1;
            if [NOTHING, NOT_REACHED].contains(&outcome.by.as_str()) {
                let text = key.splitn(3, '|').nth(2).unwrap_or_default();
                let text = text.rsplit_once('|').map_or(text, |(text, _)| text);
                let text = text.replace('|', "\\|");
                // Writing to a string does not fail.
                let _ = writeln!(
                    rows,
                    "| {} | {kind} | `{text}` | {} |",
                    file_of(key),
                    outcome.by
                );
            }
        }
        let mut text = String::from("| found by | number |\n|---|--:|\n");
        for (by, number) in numbers {
            let _ = writeln!(text, "| {by} | {number} |");
        }
        text + "\n| file | change | of | found by |\n|---|---|---|---|\n" + &rows
    }
}

/// A test, what it reaches, and how long it takes.
struct Test {
    program: PathBuf,
    name: String,
    took: Duration,
    reached: Vec<u8>,
}

impl Test {
    fn reaches(&self, mutant: &Mutant) -> bool {
        reaches(&self.reached, mutant)
    }
}

fn reaches(reached: &[u8], mutant: &Mutant) -> bool {
    let (number, bit) = mutant.reached;
    reached
        .get(number as usize)
        .is_some_and(|bits| bits & bit != 0)
}

/// What is run.
pub(crate) struct Checks<'b> {
    built: &'b Built,
    explore_seconds: u64,
    unit: Vec<Test>,
    /// The shortest ones first.
    real: Vec<Test>,
    explored: Vec<u8>,
    small: Vec<u8>,
}

impl<'b> Checks<'b> {
    /// Runs each of them once as it is, and learns which places it reaches.
    pub(crate) fn learn(built: &'b Built, kept: &Path, seconds: u64) -> io::Result<Checks<'b>> {
        let mut checks = Checks {
            built,
            explore_seconds: seconds,
            unit: Vec::new(),
            real: Vec::new(),
            explored: Vec::new(),
            small: Vec::new(),
        };
        let file = kept.join("reached");
        let learned = |command: Command| -> io::Result<(Option<String>, Vec<u8>)> {
            let _ = fs::remove_file(&file);
            let failure = failure(command, ("CMWQ_MUTANTS_REACHED", &file), LONGEST)?;
            Ok((failure, fs::read(&file).unwrap_or_default()))
        };
        for program in std::iter::once(&built.unit).chain(&built.tests) {
            for name in checks.names(program)? {
                let began = Instant::now();
                let (failure, reached) = learned(checks.tests(program, [&name]))?;
                if let Some(how) = failure {
                    println!("{name} fails as it is, and is left out: {how}");
                    continue;
                }
                let test = Test {
                    program: program.clone(),
                    name,
                    took: began.elapsed(),
                    reached,
                };
                match *program == built.unit {
                    true => checks.unit.push(test),
                    false => checks.real.push(test),
                }
            }
        }
        checks.real.sort_by_key(|test| test.took);
        let number = (checks.unit.len(), checks.real.len());
        println!(
            "{} unit tests, {} tests with real threads",
            number.0, number.1
        );
        checks.explored = learned(checks.explore(20))?.1;
        checks.small = learned(checks.corpus(20))?.1;
        Ok(checks)
    }

    fn names(&self, program: &Path) -> io::Result<Vec<String>> {
        let mut list = Command::new(program);
        let output = list
            .arg("--list")
            .current_dir(&self.built.library)
            .output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
        Ok(names.map(str::to_owned).collect())
    }

    fn tests<'t>(&self, program: &Path, names: impl IntoIterator<Item = &'t String>) -> Command {
        let mut tests = Command::new(program);
        tests.args(["--exact", "--test-threads", "2"]).args(names);
        tests.current_dir(&self.built.library);
        tests
    }

    /// Random programs.
    fn explore(&self, seconds: u64) -> Command {
        let mut explore = Command::new(&self.built.sim);
        explore.args(["explore", "--faults", "all", "--shrink", "0", "--jobs", "1"]);
        explore.args(["--seeds", "1000000000", "--seconds", &seconds.to_string()]);
        explore
    }

    /// Small programs.
    fn corpus(&self, seconds: u64) -> Command {
        let mut corpus = Command::new(&self.built.sim);
        corpus.args(["corpus", "--pairs", "--scheduler", "walk", "--runs", "8"]);
        corpus.args(["--jobs", "1", "--seconds", &seconds.to_string()]);
        corpus
    }

    /// Tries these, several at a time.
    pub(crate) fn run(
        &self,
        wanted: &[&Mutant],
        until: Instant,
        jobs: usize,
        results: &mut Results,
    ) -> io::Result<()> {
        let state = Mutex::new((0, results, Ok(())));
        let lock = || {
            state
                .lock()
                .unwrap_or_else(|poisoned| poisoned.into_inner())
        };
        let work = || {
            loop {
                let index = {
                    let mut state = lock();
                    state.0 += 1;
                    state.0 - 1
                };
                let Some(mutant) = wanted.get(index) else {
                    break;
                };
                if Instant::now() >= until {
                    break;
                }
                let outcome = self.try_one(mutant);
                let mut state = lock();
                let noted = outcome.and_then(|outcome| {
                    let number = format!("{}/{}", index + 1, wanted.len());
                    let Mutant { file, line, .. } = mutant;
                    let (kind, text) = (mutant.kind.name(), &mutant.text);
                    println!("{number} {file}:{line} {kind}: {text}: {}", outcome.by);
                    state.1.note(mutant, outcome)
                });
                if noted.is_err() {
                    state.2 = noted;
                    state.0 = wanted.len();
                }
            }
        };
        thread::scope(|scope| {
            (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work)));
        });
        let (begun, _, result) = state.into_inner().unwrap_or_else(|p| p.into_inner());
        if begun < wanted.len() {
            println!("the time is over: the next run goes on here");
        }
        result
    }

    fn try_one(&self, mutant: &Mutant) -> io::Result<Outcome> {
        let number = PathBuf::from(mutant.number.to_string());
        let chosen = ("CMWQ_MUTANT", number.as_path());
        let by = |by: &str, how: String| {
            let by = by.to_owned();
            Ok(Outcome { by, how })
        };
        let unit: Vec<&Test> = self.unit.iter().filter(|t| t.reaches(mutant)).collect();
        if !unit.is_empty() {
            let tests = self.tests(&self.built.unit, unit.iter().map(|test| &test.name));
            if let Some(how) = failure(tests, chosen, LONGEST)? {
                return by("unit tests", how);
            }
        }
        let explored = reaches(&self.explored, mutant);
        if explored {
            let explore = self.explore(self.explore_seconds);
            if let Some(how) = failure(explore, chosen, LONGEST)? {
                return by("random programs", how);
            }
        }
        let small = reaches(&self.small, mutant);
        if small {
            let corpus = self.corpus(self.explore_seconds);
            if let Some(how) = failure(corpus, chosen, LONGEST)? {
                return by("small programs", how);
            }
        }
        let mut left = REAL;
        let mut real: BTreeMap<&Path, Vec<&String>> = BTreeMap::new();
        for test in self.real.iter().filter(|test| test.reaches(mutant)) {
            let Some(less) = left.checked_sub(test.took) else {
                break;
            };
            left = less;
            real.entry(&test.program).or_default().push(&test.name);
        }
        let is_reached = explored || small || !unit.is_empty() || !real.is_empty();
        for (program, names) in real {
            let tests = self.tests(program, names);
            if let Some(how) = failure(tests, chosen, LONGEST)? {
                return by("tests with real threads", how);
            }
        }
        by(
            if is_reached { NOTHING } else { NOT_REACHED },
            String::new(),
        )
    }
}

/// Runs it, with this in its environment, until it ends or says that something has failed; returns
/// how that showed.
fn failure(
    mut command: Command,
    environment: (&str, &Path),
    most: Duration,
) -> io::Result<Option<String>> {
    command.env(environment.0, environment.1);
    let fails = |line: &str| line.ends_with("... FAILED") || line.starts_with("FAILED");
    Ok(match copy::ended(command, most, fails)? {
        Verdict::Passed(_) => None,
        Verdict::Late => Some("it has no end".to_owned()),
        Verdict::Failed(said) => {
            let line = said.lines().find(|line| fails(line));
            Some(line.or(said.lines().last()).unwrap_or_default().to_owned())
        }
    })
}

/// In an order that depends on the seed only (Fisher and Yates, with the generator `splitmix64`).
pub(crate) fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut state = seed;
    for last in (1..items.len()).rev() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        items.swap(last, (mixed % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, most: Duration) -> Option<String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        failure(command, ("PLACE", Path::new("7")), most).unwrap()
    }

    #[test]
    fn a_program_that_fails_says_so_or_has_no_end_is_told_from_one_that_passes() {
        assert_eq!(shell("exit $((PLACE - 7))", LONGEST), None);
        assert!(shell("exit $PLACE", LONGEST).is_some());
        let said = shell("echo test x ... FAILED; sleep 1000", LONGEST);
        assert_eq!(said.as_deref(), Some("test x ... FAILED"));
        let endless = shell("sleep 1000 & sleep 1000", Duration::from_millis(1));
        assert_eq!(endless.as_deref(), Some("it has no end"));
    }

    #[test]
    fn a_seed_is_one_order_of_all() {
        let order = |seed| {
            let mut items: Vec<u32> = (0..100).collect();
            shuffle(&mut items, seed);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
    }
}
