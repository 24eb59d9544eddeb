//! The options of `cmwq bench`, and their reading.
//!
//! Values arrive as text and are read here, not by the argument parser, so that each bad one gives
//! one line that names the value and says what is allowed.

use std::path::PathBuf;

use cmwq::affinity::{AffinityScope, effective_shard_size};

use crate::machine::{MachineArgs, scope_names};
use cmwq_command::CliError;

/// Every scope in the order of the published runs: `cache_shard` before `cache`.
pub(super) const PUBLISHED_ORDER: [AffinityScope; AffinityScope::CONCRETE.len()] = {
    let mut order = AffinityScope::CONCRETE;
    let at = AffinityScope::Cache.index() - 1;
    assert!(matches!(order[at + 1], AffinityScope::CacheShard));
    order.swap(at, at + 1);
    order
};

/// Items each issuer queues in the published runs, and the most that calibration picks.
pub(super) const PUBLISHED_ITEMS: u64 = 50_000;

/// Most latency samples kept for one measurement (two per item, four bytes each: 256 MiB, and as
/// much again while the issuers' samples are merged).
pub(super) const MAX_SAMPLES: u64 = 64 << 20;

/// Most issuers. The largest machine the kernel can be built for has this many CPUs.
pub(super) const MAX_THREADS: usize = 8192;

/// Runs without `--runs`. The interval of a ratio then reaches from the 5th smallest to the 5th
/// greatest of them: four runs may be spoiled in the same direction without moving it.
pub(super) const DEFAULT_RUNS: usize = 21;

/// Most runs. Enough for any statistics; a larger number is a slip of the hand.
pub(super) const MAX_RUNS: usize = 10_000;

const LONG_ABOUT: &str = "\
Measure each affinity scope with the published micro-benchmark.

One issuer thread per allowed CPU, pinned to it, queues one item, waits until it has run, and repeats. All issuers \
start together. Reported per scope: items per second, the time inside queue() (enqueue latency) and the time from \
queue() to the completion seen (round trip), each as p50, p90, p95 and p99 in nanoseconds, the workers created, \
wake-ups and stolen items per item, and the CPU time used as a percentage of what the CPUs could give. Each figure is the \
median over the runs; the scopes take short turns, so that a machine that drifts does so for all of them. Scopes \
that cut this machine into the same pods are the same thing, and are measured once.

Items per second are compared with those of the scope cache, run by run. Beside the median of these ratios stands \
its 99 % confidence interval, by order statistics: from the k-th smallest to the k-th greatest ratio, k by the \
binomial distribution, which assumes nothing about the noise. Where it contains 1 the runs cannot tell which is \
faster, and no ratio is shown. It takes 8 runs or more.

Without --items a short calibration picks the number of items, at least 100, so that everything ends in 15 seconds \
or less if it can: thousands of runs take longer.

With --loop the scopes are measured under a load of every day instead (--loop list names them), each run in a process \
of its own, and the last line says in words whether another scope is better than the default: by the rate, by the time that a \
round takes where rounds have pauses between them, or by the p99 of the start where items arrive by the clock. About a minute.";

const AFTER_LONG_HELP: &str = "\
Examples:
  cmwq bench
  cmwq bench --items 50000 --runs 15 --html bench.html
  cmwq bench --scopes cache_shard,cache --shard-size 1,2,4,8,16,32
  cmwq bench --synthetic 'l3:2 core:1 pu:1' --format json
  cmwq bench --loop window --item-us 20 --issuers half
  cmwq bench --loop open --load 60 --item-us 100

JSON, one object:
  format            \"cmwq-bench\"
  version           2; fields may be added, a changed meaning changes it
  date, command     UTC; a command line that measures the same again
  machine           description, source, cpu_model, kernel, cpus, llcs,
                    real_cpus
  settings          threads, items, items_calibrated, runs, strict
  results[]         label, scope, shard_size (null: the default), pods
                    (how many), same_pods_as (null; or the label of the result whose
                    measurements these are, since its pods are the same),
                    and {median, min, max} of: items_per_s, ratio_to_cache
                    (null without cache), enqueue_ns and round_trip_ns (each
                    .p50 .p90 .p95 .p99), workers_created,
                    wakeups_per_item, stolen_per_item, cpu_percent;
                    runs[] holds the single measurements;
                    ratio_to_cache.interval: {low, high, confidence} for the
                    median; null with fewer than 8 runs, and for cache
                    itself and what has the same pods

With --loop, one object:
  format            \"cmwq-bench-loop\"
  version           1; as above
  machine           as above
  settings          loop, about, item_us, issuers, wait, runs, time_ms, strict, compared
  results[]         the default first; label, scope, shard_size, pods, same_pods_as as above; {median, min, max} of items_per_s,
                    start_p50_ns, start_p99_ns, done_p50_ns, done_p99_ns, cpu_us_per_item, wakeups_per_item, switches_per_item,
                    peak_threads; ratio_to_default, above 1 if better; unsteady; runs[]
  verdict           in words

Exit status: 0 done, 1 the measurement could not be made, 2 a value was refused.";

/// Options of `cmwq bench`.
#[derive(clap::Args, Debug, Clone, Default)]
#[command(long_about = LONG_ABOUT, after_long_help = AFTER_LONG_HELP)]
pub(crate) struct Args {
    /// Number of threads that queue items [default: one for each CPU that the process may use]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    threads: Option<String>,

    /// Number of items that each of these threads queues. By default chosen so that the whole run
    /// takes about 15 seconds, and at most 50000, the published number
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    items: Option<String>,

    #[arg(long, alias = "scope", value_name = "LIST", help = format!("Scopes to measure, in this order [default: {}]", scope_names(&PUBLISHED_ORDER).replace(' ', "")))]
    scopes: Option<String>,

    /// About how many cores make up a cache shard; with a list, the scope cache_shard is measured
    /// once for each size [default: CMWQ_CACHE_SHARD_SIZE, or else 8]
    #[arg(long, value_name = "LIST", allow_hyphen_values = true)]
    shard_size: Option<String>,

    /// Keep every item in the group of CPUs (pod) that it was queued from: idle workers of other
    /// pods do not take it
    #[arg(long)]
    strict: bool,

    /// How often each scope is measured; the scopes take turns. A comparison with the scope cache
    /// needs 8 or more [default: 21]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    pub(super) runs: Option<String>,

    /// Output on standard output: text or json
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Option<String>,

    /// Also write the results as one self-contained page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Serve the control endpoint, for `cmwq top` and the like (also with CMWQ_CONTROL=1)
    ///
    /// Each measurement makes an engine and a workqueue of its own. So what `cmwq set` and `cmwq
    /// param` change holds for the measurement that runs at that moment only. The results do not
    /// say that something was changed.
    #[arg(long)]
    pub(super) control: bool,

    #[command(flatten)]
    pub(super) load: super::load::Given,

    #[command(flatten)]
    pub(super) machine: MachineArgs,
}

/// What is printed on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Json,
}

/// The options after reading: every value is usable.
#[derive(Debug, Clone)]
pub(super) struct Options {
    /// `None`: one per allowed CPU.
    pub(super) threads: Option<usize>,
    /// `None`: calibrate.
    pub(super) items: Option<u64>,
    pub(super) scopes: Vec<AffinityScope>,
    /// Empty: the engine's own default. More than one: a sweep.
    pub(super) shard_sizes: Vec<usize>,
    pub(super) strict: bool,
    pub(super) runs: usize,
    pub(super) format: Format,
    pub(super) html: Option<PathBuf>,
    /// Lines for standard error; the run goes on.
    pub(super) warnings: Vec<String>,
}

impl Args {
    /// Reads every value; the first bad one is the error.
    pub(super) fn options(&self) -> Result<Options, CliError> {
        let threads = match &self.threads {
            Some(text) => Some(whole_number("--threads", text, 1, MAX_THREADS as u64)? as usize),
            None => None,
        };
        let items = match &self.items {
            Some(text) => Some(whole_number("--items", text, 1, MAX_SAMPLES / 2)?),
            None => None,
        };
        if let (Some(threads), Some(items)) = (threads, items) {
            check_samples(threads, items)?;
        }
        let scopes = match &self.scopes {
            Some(text) => scopes(text)?,
            None => PUBLISHED_ORDER.to_vec(),
        };
        let mut warnings = Vec::new();
        let shard_sizes = match &self.shard_size {
            Some(text) => shard_sizes(text, &mut warnings)?,
            None => Vec::new(),
        };
        if shard_sizes.len() > 1 && !scopes.contains(&AffinityScope::CacheShard) {
            return Err(CliError::new(format!(
                "--shard-size: {:?} is a list, which needs the scope cache_shard, and --scopes leaves it out",
                self.shard_size.as_deref().unwrap_or_default()
            )));
        }
        let runs = match &self.runs {
            Some(text) => whole_number("--runs", text, 1, MAX_RUNS as u64)? as usize,
            None => DEFAULT_RUNS,
        };
        let format = match self.format.as_deref() {
            None | Some("text") => Format::Text,
            Some("json") => Format::Json,
            Some(other) => {
                return Err(CliError::new(format!(
                    "--format: {other:?} is not a format: it must be text or json"
                )));
            }
        };
        Ok(Options {
            threads,
            items,
            scopes,
            shard_sizes,
            strict: self.strict,
            runs,
            format,
            html: self.html.clone(),
            warnings,
        })
    }
}

/// Refuses a measurement whose samples would not fit in the memory set aside for them.
pub(super) fn check_samples(threads: usize, items: u64) -> Result<(), CliError> {
    let most = most_items(threads);
    if items > most {
        return Err(CliError::new(format!(
            "--items {items}: too many latency samples to keep: with {threads} threads it must be a whole \
             number from 1 to {most}"
        )));
    }
    Ok(())
}

/// The most items per issuer whose samples fit.
pub(super) fn most_items(threads: usize) -> u64 {
    MAX_SAMPLES / 2 / threads.max(1) as u64
}

pub(super) fn whole_number(
    option: &str,
    text: &str,
    least: u64,
    most: u64,
) -> Result<u64, CliError> {
    match text.parse::<u64>() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(CliError::new(format!(
            "{option}: {text:?} is not possible: it must be a whole number from {least} to {most}"
        ))),
    }
}

/// Reads a list of scope names. A name given twice is measured once.
fn scopes(text: &str) -> Result<Vec<AffinityScope>, CliError> {
    let mut scopes = Vec::new();
    for name in text.split(',') {
        let scope = PUBLISHED_ORDER
            .into_iter()
            .find(|scope| scope.name() == name)
            .ok_or_else(|| {
                let allowed = scope_names(&PUBLISHED_ORDER);
                CliError::new(format!(
                    "--scopes: {name:?} is not an affinity scope to measure: it must be one of {allowed}"
                ))
                .suggest(name, PUBLISHED_ORDER.map(AffinityScope::name))
            })?;
        if !scopes.contains(&scope) {
            scopes.push(scope);
        }
    }
    Ok(scopes)
}

/// Reads a list of shard sizes. A size given twice is measured once; as in the kernel, 0 is taken
/// for 1, with a warning.
fn shard_sizes(text: &str, warnings: &mut Vec<String>) -> Result<Vec<usize>, CliError> {
    let mut sizes = Vec::new();
    for word in text.split(',') {
        let digits = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        let size: Option<u32> = digits.then(|| word.parse().ok()).flatten();
        let size = size.ok_or_else(|| {
            CliError::new(format!(
                "--shard-size: {word:?} is not a shard size: it must be a whole number of cores from 1 to {}, or a \
                 list like 1,2,4,8",
                u32::MAX
            ))
        })? as usize;
        let effective = effective_shard_size(size);
        if effective != size && warnings.is_empty() {
            warnings.push(format!(
                "--shard-size: a shard of {size} cores is impossible, {effective} is used"
            ));
        }
        if !sizes.contains(&effective) {
            sizes.push(effective);
        }
    }
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Args)) -> String {
        let mut args = Args::default();
        change(&mut args);
        let message = args.options().expect_err("must be refused").to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message
    }

    #[test]
    fn defaults_are_the_published_run() {
        let options = Args::default().options().unwrap();
        assert_eq!(options.scopes, PUBLISHED_ORDER);
        assert_eq!(
            (options.threads, options.items, options.runs),
            (None, None, DEFAULT_RUNS)
        );
        assert!(options.shard_sizes.is_empty() && !options.strict);
    }

    #[test]
    fn counts_that_are_not_positive_whole_numbers_are_refused_by_value() {
        for text in ["0", "-1", "", "two", "1.5", " 3", "99999999999999999999999"] {
            for message in [
                refused(|a| a.threads = Some(text.into())),
                refused(|a| a.items = Some(text.into())),
                refused(|a| a.runs = Some(text.into())),
            ] {
                assert!(message.contains("from 1 to"), "{message}");
                assert!(message.contains(&format!("{text:?}")), "{message}");
            }
        }
    }

    #[test]
    fn scope_names_are_exact() {
        for text in [
            "Cpu",
            "cache_shards",
            "default",
            "",
            "cpu,",
            "cpu, smt",
            "cpu;smt",
        ] {
            let message = refused(|a| a.scopes = Some(text.into()));
            assert!(
                message.contains("one of cpu, smt, cache_shard, cache, numa, "),
                "{message}"
            );
        }
        let args = Args {
            scopes: Some("numa,cpu,numa".into()),
            ..Args::default()
        };
        assert_eq!(
            args.options().unwrap().scopes,
            [AffinityScope::Numa, AffinityScope::Cpu]
        );
    }

    #[test]
    fn shard_sizes_are_numbers_and_zero_is_one_with_one_warning() {
        for text in ["eight", "-8", "", "8,", "1,2;4", "0x8"] {
            let message = refused(|a| a.shard_size = Some(text.into()));
            assert!(
                message.contains("--shard-size") && message.contains("must be"),
                "{message}"
            );
        }
        let args = Args {
            shard_size: Some("0,1,4,0,4".into()),
            ..Args::default()
        };
        let options = args.options().unwrap();
        assert_eq!(options.shard_sizes, [1, 4]);
        assert_eq!(options.warnings.len(), 1);
    }

    #[test]
    fn a_sweep_needs_the_scope_it_sweeps() {
        let message = refused(|a| {
            a.scopes = Some("cpu".into());
            a.shard_size = Some("1,2".into());
        });
        assert!(message.contains("cache_shard"), "{message}");
        let single = Args {
            scopes: Some("cpu".into()),
            shard_size: Some("2".into()),
            ..Args::default()
        };
        assert!(single.options().is_ok());
    }

    #[test]
    fn formats_other_than_text_and_json_are_refused() {
        assert!(refused(|a| a.format = Some("xml".into())).contains("text or json"));
    }

    #[test]
    fn samples_beyond_the_cap_are_refused_with_what_would_fit() {
        let message = refused(|a| {
            a.threads = Some("64".into());
            a.items = Some("1000000".into());
        });
        assert!(message.contains("from 1 to 524288"), "{message}");
        assert!(check_samples(64, 524_288).is_ok());
    }
}
