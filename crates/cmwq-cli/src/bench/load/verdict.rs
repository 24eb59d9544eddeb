//! What the runs say, in words: which scope is best for this load, or that they cannot tell.

use cmwq_loads::{Load, Pause, Shape};

use super::super::interval::{LEAST_RUNS, Ratio};
use super::child::Run;

/// By which figure scopes are compared: the one that a user of such a load waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compared {
    /// Items in a second.
    Rate,
    /// The median of the time that a round takes.
    Round,
    /// The time that 99 in 100 items start within.
    Start,
}

impl Compared {
    pub(super) fn of(load: &Load) -> Compared {
        match load.shape {
            Shape::Flow { .. } => Compared::Rate,
            Shape::Gather {
                pause: Pause::None, ..
            } => Compared::Rate,
            Shape::Gather { .. } => Compared::Round,
            Shape::Arrive { .. } => Compared::Start,
        }
    }

    /// The figure of a run: more is better.
    pub(super) fn score(self, run: &Run) -> f64 {
        let of_time = |ns: u64| 1e9 / ns.max(1) as f64;
        match self {
            Compared::Rate => run.items_per_s,
            Compared::Round => of_time(run.done_ns.p50),
            Compared::Start => of_time(run.start_ns.p99),
        }
    }

    /// What is so many times better.
    fn words(self) -> &'static str {
        match self {
            Compared::Rate => "times faster for this load",
            Compared::Round => "times faster for this load (a round's median)",
            Compared::Start => "times faster for this load (the start that 99 in 100 items have)",
        }
    }

    /// What is compared, for the line below the table.
    pub(super) fn figure(self) -> &'static str {
        match self {
            Compared::Rate => "items/s",
            Compared::Round => "the median of done",
            Compared::Start => "the p99 of start",
        }
    }
}

/// A scope that was measured.
pub(super) struct Measured<'a> {
    pub(super) label: &'a str,
    /// Against the default, run by run.
    pub(super) ratio: Ratio,
}

/// By so much the default may be beaten and still be kept: nobody changes a setting for less.
const WORTH_IT: f64 = 1.03;
/// If a gain of more than this cannot be excluded, the runs are too noisy.
const EXCLUDED: f64 = 1.10;

/// The verdict. `others`: what was measured beside the default; `scores`: those of the default's
/// runs; `unsteady`: how many of all runs were not steady.
pub(super) fn verdict(
    default: &str,
    scores: &[f64],
    others: &[Measured<'_>],
    compared: Compared,
    (unsteady, runs): (usize, usize),
) -> String {
    if others.is_empty() {
        return format!(
            "keep the default: every scope that was asked for has the pods of {default} on this machine"
        );
    }
    if scores.len() < LEAST_RUNS {
        return format!("too few runs to tell: it takes --runs {LEAST_RUNS} or more");
    }
    if unsteady * 2 > runs {
        return format!(
            "not steady: in {unsteady} of {runs} runs the two halves differ by more than 10 %; --time-ms may be longer"
        );
    }
    let known = others
        .iter()
        .filter_map(|other| Some((other, other.ratio.interval?)));
    let better = known
        .clone()
        .filter(|(other, interval)| interval.low > 1.0 && other.ratio.spread.median >= WORTH_IT)
        .max_by(|(_, one), (_, other)| one.low.total_cmp(&other.low));
    if let Some((other, interval)) = better {
        return format!(
            "{} is {:.2} {}, 99 % interval {:.2} to {:.2}",
            other.label,
            other.ratio.spread.median,
            compared.words(),
            interval.low,
            interval.high
        );
    }
    let most = known.map(|(_, interval)| interval.high).fold(0.0, f64::max);
    if most > EXCLUDED {
        let greatest = scores.iter().copied().fold(0.0, f64::max);
        let least = scores.iter().copied().fold(f64::INFINITY, f64::min);
        return format!(
            "too noisy to tell: the same scope differs by {:.2} between runs; an idle machine or more --runs may tell",
            greatest / least.max(f64::MIN_POSITIVE)
        );
    }
    match most >= 1.0 {
        true => format!(
            "keep the default: no scope is better than {default} by more than the noise ({most:.2} times at most)"
        ),
        false => format!(
            "keep the default: all others are slower than {default} (the best {most:.2} times as fast at most)"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: Compared = Compared::Rate;

    /// The verdict on one other scope whose runs have these scores beside those of the default.
    fn of(default: &[f64], other: &[f64]) -> String {
        let measured = Measured {
            label: "cache",
            ratio: Ratio::of(other, default),
        };
        verdict(
            "cache_shard",
            default,
            &[measured],
            RATE,
            (0, default.len()),
        )
    }

    fn times(factor: f64, scores: &[f64]) -> Vec<f64> {
        scores.iter().map(|score| score * factor).collect()
    }

    const CALM: [f64; 9] = [100., 101., 99., 100., 102., 98., 100., 101., 99.];
    const WILD: [f64; 9] = [100., 190., 110., 150., 105., 180., 120., 100., 170.];

    #[test]
    fn a_scope_that_is_better_in_every_run_is_named_with_its_interval() {
        let words = of(&CALM, &times(1.3, &CALM));
        assert_eq!(
            words,
            "cache is 1.30 times faster for this load, 99 % interval 1.30 to 1.30"
        );
        // The noise is common to both: it does not matter.
        assert!(of(&WILD, &times(1.3, &WILD)).starts_with("cache is 1.30 times faster"));
    }

    #[test]
    fn the_default_is_kept_if_nothing_is_better_or_not_worth_it() {
        assert!(of(&CALM, &times(0.5, &CALM)).starts_with("keep the default: all others"));
        for factor in [1.0, 1.02] {
            let words = of(&CALM, &times(factor, &CALM));
            assert!(words.starts_with("keep the default: no scope"), "{words}");
        }
    }

    #[test]
    fn noise_that_hides_a_gain_is_said_with_its_size() {
        let mut turned = WILD;
        turned.reverse();
        turned[4] = 190.0;
        let words = of(&WILD, &turned);
        assert!(
            words.starts_with("too noisy to tell: the same scope differs by 1.90"),
            "{words}"
        );
    }

    #[test]
    fn few_runs_unsteady_runs_and_nothing_to_compare_are_said() {
        assert!(of(&CALM[..7], &CALM[..7]).starts_with("too few runs"));
        let other = || Measured {
            label: "cache",
            ratio: Ratio::of(&CALM, &CALM),
        };
        let words = verdict("cache_shard", &CALM, &[other()], RATE, (10, 18));
        assert!(words.starts_with("not steady: in 10 of 18 runs"), "{words}");
        let words = verdict("cache_shard", &CALM, &[], RATE, (0, 9));
        assert!(
            words.starts_with("keep the default: every scope"),
            "{words}"
        );
    }

    #[test]
    fn each_load_is_compared_by_what_its_user_waits_for() {
        let of = |name: &str| Compared::of(&Load::named(name).unwrap());
        assert_eq!(of("window"), Compared::Rate);
        assert_eq!(of("scatter-64"), Compared::Rate);
        assert_eq!(of("burst-4"), Compared::Round);
        assert_eq!(of("open-60"), Compared::Start);
        let run = Run {
            items_per_s: 3.0,
            done_ns: super::super::child::Percentiles {
                p50: 500_000_000,
                ..Default::default()
            },
            ..Run::default()
        };
        assert_eq!(Compared::Rate.score(&run), 3.0);
        assert_eq!(Compared::Round.score(&run), 2.0);
    }
}
