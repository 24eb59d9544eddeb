//! The published storage tables (3, 4 and 7 of `docs/lab/published.csv`) on the reference engine.
//!
//! Each job keeps some blocks in flight. A block that is read comes from the device, and an item
//! deciphers it; one that is written is enciphered by an item and goes to the device. The job then
//! takes its own time over it. The device answers after a latency, and takes so many blocks a
//! second at most.
#![forbid(unsafe_code)]

mod load;

use self::load::{Device, Load, run};
use crate::pods::Scope;
use crate::published::Role;
use cmwq_vm::Stuck;
use cmwq_vm::machine::preset;
use serde::Serialize;

/// One published row and ours.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The published table: 3, 4 or 7.
    pub table: u8,
    /// The row in it.
    pub row: String,
    /// Table 4: MiB/s read; table 3 and the differences of table 7: percent; the other rows of
    /// table 7: MiB/s.
    pub published: f64,
    /// The same, simulated.
    pub predicted: f64,
    /// Percent; of a [difference](Self::is_difference), what ours is above the published one, in
    /// percentage points.
    pub error: f64,
    /// Whether `published` and `predicted` are differences in percent.
    pub is_difference: bool,
    /// Table 4: CPU use as published.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_published: Option<f64>,
    /// The same, simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_predicted: Option<f64>,
    /// Whether the model was fitted on the row.
    pub role: Role,
}

/// Table 4: jobs; scope, whether strict, read MiB/s, CPU use in percent.
const VERIFIED: [(usize, &str, bool, f64, f64); 9] = [
    (24, "system", false, 1159.40, 99.31),
    (24, "cache", false, 1166.40, 99.34),
    (24, "cache", true, 1166.00, 99.35),
    (8, "system", false, 1155.40, 97.41),
    (8, "cache", false, 1154.40, 96.15),
    (8, "cache", true, 1112.00, 93.26),
    (4, "system", false, 993.60, 75.49),
    (4, "cache", false, 973.40, 74.90),
    (4, "cache", true, 828.20, 66.84),
];
/// Table 7, not buffered: reads in percent; MiB/s of `cache` and `cache_shard`, their difference in percent.
const SMALL: [(&str, u64, f64, f64, f64); 3] = [
    ("random reading", 100, 389.0, 413.0, 5.9),
    ("random writing", 0, 622.0, 614.0, -1.3),
    ("both", 50, 240.0, 250.0, 4.3),
];
/// Table 3: the machine, shards; writing and reading against `cache` in percent.
const NFS: [(&str, usize, f64, f64); 8] = [
    ("grace", 2, 12.5, -0.3),
    ("grace", 4, 8.7, 1.8),
    ("grace", 8, 11.4, 3.1),
    ("grace", 16, 7.8, 1.6),
    ("grace", 32, 6.1, 0.3),
    ("9d64", 2, 0.7, 0.5),
    ("9d64", 4, 0.8, 1.3),
    ("9d64", 8, -4.0, -4.5),
];

/// The verified load. What an item and a job take is fitted on two rows of `system`, those of 24
/// and of 4 jobs; AES-256-XTS alone takes a tenth of that, and what the other nine are is not
/// published. The device is that of the published machine (Samsung 990 PRO), by its data sheet.
fn verified(jobs: usize) -> Load {
    Load {
        jobs,
        depth: 64,
        block: 32 << 10,
        reads: 50,
        cipher_ns: 158_000,
        job_ns: 37_000,
        lines: 51,
        device: Some(Device {
            read_ns: 50_000,
            write_ns: 15_000,
            each_read_ns: 4_400,
            each_write_ns: 4_700,
        }),
    }
}

/// The load of 4 KiB. An item takes what AES-128-XTS took here (0.56 µs), at half the clock. The
/// device's rate is fitted: with 4096 blocks in flight the published `cache` rows have a latency of
/// 26 to 41 ms, which is the device's alone.
fn small(reads: u64, mib_per_s: f64) -> Load {
    let each_ns = (4096.0 / (mib_per_s * f64::from(1 << 20)) * 1e9) as u64;
    Load {
        jobs: 32,
        depth: 128,
        block: 4096,
        reads,
        cipher_ns: 1_100,
        job_ns: 2_000,
        lines: 0,
        device: Some(Device {
            read_ns: 80_000,
            write_ns: 20_000,
            each_read_ns: each_ns,
            each_write_ns: each_ns,
        }),
    }
}

/// The NFS-like load, an item for each call. What a call takes beside it is fitted on the two rows
/// of two shards on Grace: more, and the items would be no bottleneck; less, and two shards would
/// double the rate.
fn mounted(job_ns: u64) -> Load {
    Load {
        jobs: 200,
        depth: 1,
        block: 512,
        reads: 0,
        cipher_ns: 8_000,
        job_ns,
        lines: 0,
        device: None,
    }
}

/// See [`mounted`]: of a call that writes, and of one that reads.
const CALL_NS: [(&str, u64); 2] = [("writing", 66_000), ("reading", 110_000)];

/// How often [`all`] reports progress.
pub const STEPS: usize = 3;

/// All rows of the three tables. `progress` gets what is being done.
///
/// # Errors
/// A run has no end, which would be a defect of the engine.
///
/// # Panics
/// If a machine of the tables is no preset.
pub fn all(seed: u64, mut progress: impl FnMut(&str)) -> Result<Vec<Row>, Stuck> {
    let machine = |name: &str| preset(name).expect("a preset").machine();
    let mut rows = Vec::new();
    progress("table 4: 3900X");
    let ryzen = machine("3900x");
    for (jobs, name, strict, mib_per_s, cpu) in VERIFIED {
        let scope = if name == "system" {
            Scope::System
        } else {
            Scope::Cache
        };
        let ours = run(&ryzen, scope, strict, verified(jobs), seed)?;
        let is_fitted = name == "system" && jobs != 8;
        let strict = if strict { " strict" } else { "" };
        rows.push(Row {
            cpu_published: Some(cpu),
            cpu_predicted: Some(ours.cpu_percent),
            ..Row::rate(
                4,
                format!("{jobs} jobs / {name}{strict}"),
                mib_per_s,
                ours.read_mib_per_s,
                is_fitted,
            )
        });
    }
    progress("table 7: D-2191A");
    let xeon = machine("d2191a");
    for (name, reads, of_cache, of_shards, delta) in SMALL {
        // Both directions were published for the mixed load, of which each has half.
        let all = if reads == 50 {
            2.0 * of_cache
        } else {
            of_cache
        };
        let load = small(reads, all);
        let cache = run(&xeon, Scope::Cache, false, load, seed)?;
        let shards = run(&xeon, Scope::CacheShardByCpu(8), false, load, seed)?;
        let half = if reads == 50 { 0.5 } else { 1.0 };
        let [cache, shards] = [cache, shards].map(|rates| half * rates.mib_per_s);
        rows.push(Row::rate(
            7,
            format!("{name} / cache"),
            of_cache,
            cache,
            true,
        ));
        rows.push(Row::rate(
            7,
            format!("{name} / cache_shard"),
            of_shards,
            shards,
            false,
        ));
        rows.push(Row::delta(
            7,
            format!("{name} / difference"),
            delta,
            shards / cache,
        ));
    }
    progress("table 3: Grace, 9D64");
    for (name, shards, writing, reading) in NFS {
        let machine = machine(name);
        for ((what, job_ns), published) in CALL_NS.into_iter().zip([writing, reading]) {
            let rate = |scope| run(&machine, scope, false, mounted(job_ns), seed);
            let ratio = rate(Scope::PartsByCpu(shards))?.mib_per_s / rate(Scope::Cache)?.mib_per_s;
            let mut row = Row::delta(3, format!("{name} / {shards} / {what}"), published, ratio);
            if (name, shards) == ("grace", 2) {
                row.role = Role::Calibrate;
            }
            rows.push(row);
        }
    }
    Ok(rows)
}

impl Row {
    fn rate(table: u8, row: String, published: f64, predicted: f64, is_fitted: bool) -> Row {
        Row {
            table,
            row,
            published,
            predicted,
            error: (predicted / published - 1.0) * 100.0,
            is_difference: false,
            cpu_published: None,
            cpu_predicted: None,
            role: if is_fitted {
                Role::Calibrate
            } else {
                Role::Predict
            },
        }
    }

    /// A difference in percent.
    fn delta(table: u8, row: String, published: f64, ratio: f64) -> Row {
        let predicted = (ratio - 1.0) * 100.0;
        Row {
            error: predicted - published,
            is_difference: true,
            ..Row::rate(table, row, published, predicted, false)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_that_is_the_bottleneck_decides_the_rate() {
        let machine = preset("two-vcpus").expect("a preset").machine();
        for reads in [0, 50, 100] {
            let load = Load {
                jobs: 2,
                depth: 16,
                ..small(reads, 40.0)
            };
            let rates = run(&machine, Scope::Cache, false, load, 7).expect("it ends");
            assert!(
                (rates.mib_per_s / 40.0 - 1.0).abs() < 0.02,
                "{reads}: {rates:?}"
            );
            let share = rates.read_mib_per_s / rates.mib_per_s;
            assert!(
                (share - reads as f64 / 100.0).abs() < 0.1,
                "{reads}: {rates:?}"
            );
            assert!(rates.cpu_percent < 90.0, "{rates:?}");
        }
    }

    #[test]
    fn without_a_device_the_cpus_decide_it() {
        let machine = preset("two-vcpus").expect("a preset").machine();
        let load = Load {
            jobs: 8,
            ..mounted(42_000)
        };
        let rates = run(&machine, Scope::Cpu, false, load, 7).expect("it ends");
        assert!(rates.cpu_percent > 95.0, "{rates:?}");
        // Two CPUs, 50 µs and the engine's own for each call.
        let calls = rates.mib_per_s * f64::from(1 << 20) / 512.0;
        assert!((30_000.0..40_000.0).contains(&calls), "{calls}");
    }

    #[test]
    fn the_published_figures_are_those_of_the_collection() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/lab/published.csv");
        let text = std::fs::read_to_string(file).expect("readable");
        let figures = |table: &str, column: &str| -> Vec<f64> {
            let lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
            let of_it = lines.filter(|cells| cells[0] == table && cells[2] == column);
            let number = |cells: Vec<&str>| {
                let word = cells[3].split_whitespace().next().expect("a figure");
                let word = word.replace('−', "-");
                let word = word.trim_end_matches('%').trim_start_matches('+');
                word.parse().expect("a number")
            };
            of_it.map(number).collect()
        };
        let ours =
            |figure: fn(&(usize, &str, bool, f64, f64)) -> f64| VERIFIED.each_ref().map(figure);
        assert_eq!(figures("4", "MiB/s"), ours(|row| row.3));
        assert_eq!(figures("4", "CPU used"), ours(|row| row.4));
        // The last three rows are the buffered ones.
        assert_eq!(figures("7", "cache")[..3], SMALL.map(|row| row.2));
        assert_eq!(figures("7", "cache_shard")[..3], SMALL.map(|row| row.3));
        assert_eq!(figures("7", "difference")[..3], SMALL.map(|row| row.4));
        assert_eq!(figures("3", "writing"), NFS.map(|row| row.2));
        assert_eq!(figures("3", "reading"), NFS.map(|row| row.3));
    }
}
