//! What the rate programs of the drop-ins share: an amount of computing, and loops of two packages in turns.

use std::hint::black_box;
use std::process::exit;
use std::sync::LazyLock;
use std::time::Instant;

pub(crate) type Loop = fn() -> f64;

/// Computes for about 20 microseconds on a CPU alone. Not until that time has passed: it passes for
/// a thread that was preempted as well, and the more threads a pool has the less it would compute.
pub(crate) fn spin() {
    /// So many steps, each of which needs the one before it.
    fn steps(count: u32) {
        let mut x = black_box(0x9e37_79b9_7f4a_7c15_u64);
        for _ in 0..count {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
        }
        black_box(x);
    }
    /// So many take 20 microseconds, when nothing disturbs them.
    static COUNT: LazyLock<u32> = LazyLock::new(|| {
        const TRIAL: u32 = 10_000;
        let takes = |_| {
            let begin = Instant::now();
            steps(TRIAL);
            begin.elapsed()
        };
        let trial = (0..1000).map(takes).min().expect("some");
        (20_000 * u64::from(TRIAL) / (trial.as_nanos() as u64).max(1)) as u32
    });
    steps(*COUNT);
}

/// "median (min to max)", and the median.
fn summary(mut rates: Vec<f64>) -> (String, f64) {
    rates.sort_by(f64::total_cmp);
    let (min, max) = (rates[0], rates[rates.len() - 1]);
    let median = rates[rates.len() / 2];
    (format!("{median:9.0} ({min:9.0} to {max:9.0})"), median)
}

/// Runs each loop, of this package and of the original in turns, as often as the program's argument
/// says, and prints the rates. `about` says what else is to be known of the columns.
pub(crate) fn compare(program: &str, about: &str, loops: &[(&str, Loop, Loop)]) {
    let rounds = match std::env::args().nth(1).as_deref() {
        None => 7,
        Some("--help" | "-h") => {
            println!(
                "usage: {program} [ROUNDS]\n\nEach loop with both packages in turns, ROUNDS times (7). For example: {program} 3"
            );
            return;
        }
        Some(text) => text
            .parse()
            .ok()
            .filter(|&rounds| rounds > 0)
            .unwrap_or_else(|| {
                eprintln!("{program}: '{text}' is no number of rounds");
                exit(2)
            }),
    };
    let heading = format!("median (min to max){about}");
    println!("{heading:28} {:^34} {:^34}  ratio", "on cmwq", "original");
    for &(name, ours, theirs) in loops {
        let both: (Vec<f64>, Vec<f64>) = (0..rounds).map(|_| (ours(), theirs())).unzip();
        let ((ours, a), (theirs, b)) = (summary(both.0), summary(both.1));
        println!("{name:28} {ours} {theirs}  {:.2}", a / b);
    }
}
