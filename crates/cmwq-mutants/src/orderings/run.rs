//! Builds the copy, runs programs with one ordering weakened, and keeps what they said.

use super::sites::{self, Site};
use crate::copy::{self, Verdict, failed};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How much is run for one weakened ordering.
pub(crate) struct Limits {
    pub(crate) seeds: u64,
    pub(crate) explore: u64,
    pub(crate) model: Duration,
    pub(crate) jobs: usize,
    pub(crate) again: bool,
}

/// What came of one weakened ordering.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// `exploration`, the name of a model, or nothing.
    pub(crate) by: String,
    /// What was run: seeds, models.
    pub(crate) runs: String,
    /// How it showed.
    pub(crate) how: String,
}

/// Where everything is.
pub(crate) struct Place {
    root: PathBuf,
    copy: PathBuf,
    kept: PathBuf,
    models: PathBuf,
    pub(crate) began: Instant,
    /// By place in the sources, and weaker ordering.
    pub(crate) results: BTreeMap<(String, String), Outcome>,
    /// The models that use an ordering, by its number, with how long each takes.
    users: BTreeMap<usize, Vec<(Duration, String)>>,
    /// Orderings that exploration uses.
    explored: BTreeSet<usize>,
}

/// Models that take no longer are run before exploration, the others after it.
const QUICK: Duration = Duration::from_millis(300);

/// Every pair of operations, a few times.
const PAIRS: [&str; 3] = ["--pairs", "--runs", "64"];
/// Those of the protocols, often.
const PROTOCOLS: [&str; 5] = ["--protocols", "--scheduler", "walk", "--runs", "100000"];

impl Place {
    pub(crate) fn new(root: &Path) -> io::Result<Place> {
        let kept = root.join("target/orderings");
        fs::create_dir_all(&kept)?;
        let mut place = Place {
            root: root.to_owned(),
            copy: kept.join("tree"),
            models: PathBuf::new(),
            began: Instant::now(),
            results: BTreeMap::new(),
            users: BTreeMap::new(),
            explored: BTreeSet::new(),
            kept,
        };
        let text = fs::read_to_string(place.results_file()).unwrap_or_default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            if let [at, to, by, runs, how] = fields[..] {
                let outcome = Outcome {
                    by: by.to_owned(),
                    runs: runs.to_owned(),
                    how: how.to_owned(),
                };
                place
                    .results
                    .insert((at.to_owned(), to.to_owned()), outcome);
            }
        }
        Ok(place)
    }

    fn results_file(&self) -> PathBuf {
        self.kept.join("results.tsv")
    }

    /// Copies the workspace, makes its orderings questions, and builds it.
    pub(crate) fn build(&mut self, all: &[Site]) -> io::Result<()> {
        copy::of_workspace(&self.root, &self.kept, |sources| {
            sites::put_in(sources, all)
        })?;
        eprintln!("building the simulator and the models, some minutes the first time");
        self.cargo(&["build", "--release", "-p", "cmwq-sim"])?;
        let said = self.cargo(&[
            "test",
            "--release",
            "-p",
            "cmwq-models",
            "--lib",
            "--no-run",
        ])?;
        let program = copy::programs(&said).next();
        let program = program.ok_or_else(|| failed("cargo names no program of the models"))?;
        self.models = self.copy.join(program);
        Ok(())
    }

    /// Returns what cargo says.
    fn cargo(&self, arguments: &[&str]) -> io::Result<String> {
        copy::said(copy::cargo(&self.copy, &self.kept.join("build"), arguments))
    }

    /// Forgets what was learned of other programs than those that were built now: orderings have
    /// other numbers there.
    fn forget_others(&self) -> io::Result<()> {
        let mut hasher = DefaultHasher::new();
        for program in [&self.models, &self.kept.join("build/release/cmwq-sim")] {
            hasher.write(&fs::read(program)?);
        }
        let built = format!("{:016x}", hasher.finish());
        let known = self.kept.join("learned-of");
        if fs::read_to_string(&known).ok().as_ref() == Some(&built) {
            return Ok(());
        }
        for entry in fs::read_dir(&self.kept)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with("used") {
                fs::remove_file(entry.path())?;
            }
        }
        fs::write(known, built)
    }

    /// Which models use which orderings: each is run once, as it is.
    pub(crate) fn learn(&mut self, most: Duration) -> io::Result<()> {
        self.forget_others()?;
        let listed = Command::new(&self.models).arg("--list").output()?;
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let used_file = self.kept.join("used");
        let tests = listed.lines().filter_map(|l| l.strip_suffix(": test"));
        let models: Vec<&str> = tests.filter(|test| test.contains("model")).collect();
        for (number, &test) in models.iter().enumerate() {
            let known = self.kept.join(format!("used-{}", test.replace("::", "-")));
            if !known.exists() {
                let (number, all) = (number + 1, models.len());
                eprintln!("model {number} of {all}, {test}: which orderings it uses");
                let _ = fs::remove_file(&used_file);
                let began = Instant::now();
                let verdict = self.model(test, None, most, Some(&used_file))?;
                let took = began.elapsed().as_millis();
                let used = fs::read_to_string(&used_file).unwrap_or_default();
                if let Verdict::Failed(why) = verdict {
                    return Err(failed(&format!("{test} fails as it is: {why}")));
                }
                fs::write(&known, format!("{took}\n{used}"))?;
            }
            let text = fs::read_to_string(&known)?;
            let mut numbers = text.lines().filter_map(|line| line.parse::<u64>().ok());
            let took = Duration::from_millis(numbers.next().unwrap_or(0));
            for number in numbers {
                let users = self.users.entry(number as usize).or_default();
                users.push((took, test.to_owned()));
            }
        }
        self.users.values_mut().for_each(|users| users.sort());
        let known = self.kept.join("used-by-exploration");
        if !known.exists() {
            eprintln!("exploration: which orderings it uses");
            for mut explored in [self.explore(100, 20, 2), self.corpus(&PAIRS, 10, 2)] {
                explored.env("CMWQ_ORDERINGS_USED", &known);
                run(explored, Duration::from_secs(60))?;
            }
        }
        let text = fs::read_to_string(&known).unwrap_or_default();
        self.explored = text.lines().filter_map(|line| line.parse().ok()).collect();
        Ok(())
    }

    fn explore(&self, seeds: u64, seconds: u64, jobs: usize) -> Command {
        let mut explore = Command::new(self.kept.join("build/release/cmwq-sim"));
        explore
            .args(["explore", "--faults", "all,weak", "--shrink", "0"])
            .args(["--seeds", &seeds.to_string()])
            .args(["--seconds", &seconds.to_string()])
            .args(["--jobs", &jobs.to_string()]);
        explore
    }

    /// Small programs with a weak memory, as these options say.
    fn corpus(&self, options: &[&str], seconds: u64, jobs: usize) -> Command {
        let mut corpus = Command::new(self.kept.join("build/release/cmwq-sim"));
        corpus
            .args(["corpus", "--weak"])
            .args(options)
            .args(["--seconds", &seconds.to_string()])
            .args(["--jobs", &jobs.to_string()]);
        corpus
    }

    /// Runs one model.
    fn model(
        &self,
        test: &str,
        weaken: Option<&str>,
        most: Duration,
        used: Option<&Path>,
    ) -> io::Result<Verdict> {
        let mut command = Command::new(&self.models);
        command.args(["--exact", test, "--test-threads", "1"]);
        command.current_dir(self.copy.join("crates/cmwq-models"));
        command.envs(weaken.map(|weaken| ("CMWQ_WEAKEN", weaken)));
        command.envs(used.map(|used| ("CMWQ_ORDERINGS_USED", used)));
        run(command, most)
    }

    /// Runs what uses the ordering until something finds that it is weaker; returns whether anything did.
    pub(crate) fn try_one(
        &mut self,
        number: usize,
        site: &Site,
        to: &str,
        limits: &Limits,
    ) -> io::Result<bool> {
        let key = (site.place(), to.to_owned());
        if let Some(known) = self.results.get(&key)
            && !(limits.again && known.by.is_empty())
        {
            return Ok(!known.by.is_empty());
        }
        let weaken = format!("{number}:{to}");
        let outcome = self.search(number, &weaken, limits)?;
        let by = match outcome.by.as_str() {
            "" => "NOT FOUND",
            by => by,
        };
        println!(
            "{} {} -> {to}: {by}; {}; {}",
            key.0, site.shipped, outcome.runs, outcome.how
        );
        let line = [&key.0, &key.1, &outcome.by, &outcome.runs, &outcome.how];
        let line: Vec<String> = line
            .iter()
            .map(|field| field.replace(['\t', '\n'], " "))
            .collect();
        let file = fs::File::options()
            .append(true)
            .create(true)
            .open(self.results_file());
        writeln!(file?, "{}", line.join("\t"))?;
        let found = !outcome.by.is_empty();
        self.results.insert(key, outcome);
        Ok(found)
    }

    fn search(&self, number: usize, weaken: &str, limits: &Limits) -> io::Result<Outcome> {
        let mut runs = Vec::new();
        let users = self.users.get(&number).map_or(&[][..], Vec::as_slice);
        let within = |most: Duration| users.partition_point(|(time, _)| *time <= most);
        // One that does not end in time as it is says little.
        let (quick, all) = (within(QUICK), within(limits.model));
        let (quick, slow) = users[..all].split_at(quick.min(all));
        if let Some(outcome) = self.search_models(quick, weaken, limits, &mut runs)? {
            return Ok(outcome);
        }
        if self.explored.contains(&number) {
            for (what, name, number_of) in [
                (
                    self.explore(limits.seeds, limits.explore, limits.jobs),
                    "exploration",
                    "seeds",
                ),
                (
                    self.corpus(&PAIRS, limits.explore, limits.jobs),
                    "small programs",
                    "runs of small programs",
                ),
                (
                    self.corpus(&PROTOCOLS, limits.explore, limits.jobs),
                    "programs of the protocols",
                    "runs of those of the protocols",
                ),
            ] {
                if let Some(how) = self.search_by(what, weaken, number_of, limits, &mut runs)? {
                    return Ok(Outcome {
                        by: name.to_owned(),
                        runs: runs.join(", "),
                        how,
                    });
                }
            }
        }
        if let Some(outcome) = self.search_models(slow, weaken, limits, &mut runs)? {
            return Ok(outcome);
        }
        if runs.is_empty() {
            runs.push("nothing uses it".to_owned());
        }
        Ok(Outcome {
            by: String::new(),
            runs: runs.join(", "),
            how: String::new(),
        })
    }

    /// Runs one of the simulator's commands; `Some`: how it showed that the ordering is weaker.
    fn search_by(
        &self,
        mut command: Command,
        weaken: &str,
        number_of: &str,
        limits: &Limits,
        runs: &mut Vec<String>,
    ) -> io::Result<Option<String>> {
        command.env("CMWQ_WEAKEN", weaken);
        let (said, how) = match run(command, Duration::from_secs(limits.explore + 150))? {
            Verdict::Passed(said) => (said, None),
            Verdict::Late => (String::new(), None),
            Verdict::Failed(said) => {
                let line = said.lines().find(|line| line.starts_with("FAILED"));
                let how = line.and_then(|line| line.split_once(": "));
                let how = how.map_or(said.clone(), |(_, how)| how.to_owned());
                (said, Some(how))
            }
        };
        runs.push(format!("{} {number_of}", runs_in(&said)));
        Ok(how)
    }

    fn search_models(
        &self,
        models: &[(Duration, String)],
        weaken: &str,
        limits: &Limits,
        runs: &mut Vec<String>,
    ) -> io::Result<Option<Outcome>> {
        for (done, (_, model)) in models.iter().enumerate() {
            if let Verdict::Failed(why) = self.model(model, Some(weaken), limits.model, None)? {
                runs.push(format!("{} models", done + 1));
                let why = why.lines().skip_while(|line| !line.contains("panicked at"));
                return Ok(Some(Outcome {
                    by: model.clone(),
                    runs: runs.join(", "),
                    how: why.take(2).collect::<Vec<_>>().join(" "),
                }));
            }
        }
        if !models.is_empty() {
            runs.push(format!("{} models", models.len()));
        }
        Ok(None)
    }
}

/// How many seeds or runs a command says that it did.
fn runs_in(said: &str) -> &str {
    let explored = said
        .split("explored ")
        .nth(1)
        .and_then(|text| text.split(' ').next());
    let ran = said.lines().find_map(|line| {
        let (number, rest) = line.split_once(' ')?;
        rest.starts_with("runs in ").then_some(number)
    });
    explored.or(ran).unwrap_or("some")
}

/// Runs it to its end, or until the time is over.
fn run(command: Command, most: Duration) -> io::Result<Verdict> {
    copy::ended(command, most, |_| false)
}
