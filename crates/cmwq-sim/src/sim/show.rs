//! The table as text and as JSON.

use super::rows::{Row, Table, Times};
use crate::Format;
use cmwq_command::CliError;

pub(super) fn print(table: &Table, format: Format) -> Result<(), CliError> {
    if format == Format::Json {
        return crate::print_json(table);
    }
    say!(
        "{} on {}, {}, {} issuers, seeds {} to {}, woken threads {}: simulated",
        table.engine,
        table.machine,
        table.load,
        table.issuers,
        table.seed,
        table.seed + table.seeds - 1,
        match table.placement {
            "waker" => "on their waker's CPU",
            _ => "on idle CPUs",
        }
    );
    if !table.assumed.is_empty() {
        say!("Assumed: {}", table.assumed.join("; "));
    }
    say!(
        "{:7} {:12} {:>6} {:>5} {:>11} {:>23} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9} {:>8} {:>7} {:>7}",
        "engine",
        "scope",
        "shard",
        "pods",
        "items/s",
        "of all seeds",
        "steady",
        "done p50",
        "p99",
        "enqueue",
        "p99 ns",
        "CPU ns",
        "wakes",
        "lines",
        "wait ns"
    );
    for row in &table.rows {
        print_row(row)?;
    }
    say!(
        "steady: the last two time windows agree within 5 %, and are together so long in virtual time. done: from queueing to the end that the issuer sees, in ns. CPU, wakes, lines (transfers of cache lines), wait (for lines that others use): for each item, all CPUs together"
    );
    // Of several rows only JSON has them.
    if let [row] = &table.rows[..] {
        for wait in &row.item.waits {
            say!(
                "{:>9.0} ns in {:.2} waits for a line at {}",
                wait.ns,
                wait.times,
                wait.at
            );
        }
    }
    for best in &table.best {
        let is_larger = |row: &Row| row.engine == best.engine && row.shard_size > best.shard_size;
        let others = match table.rows.iter().any(is_larger) {
            true => "larger ones lose more than a twentieth",
            false => "no larger ones were run",
        };
        let figure = match best.done_p50_ns {
            Some(ns) => format!("median time to the end {ns} ns"),
            None => format!("{:.0} items/s", best.items_per_s),
        };
        say!(
            "{}: shards of {} cores, {figure}; {others}{}",
            best.engine,
            best.shard_size,
            if best.is_steady {
                ""
            } else {
                "; not all rows are steady"
            }
        );
        if let Some(verdict) = &best.verdict {
            say!("Verdict: {verdict}");
        }
    }
    Ok(())
}

fn print_row(row: &Row) -> Result<(), CliError> {
    let shard = match row.scope {
        "cache_shard" => row.shard_size.to_string(),
        _ => "-".to_owned(),
    };
    let spread = format!("{:.0}-{:.0}", row.items_per_s_min, row.items_per_s_max);
    let ms = row.measured_ns as f64 / 1e6;
    let steady = match row.is_steady {
        true => format!("{ms:.1} ms"),
        false => "no".to_owned(),
    };
    let done = |of: fn(&Times) -> u64| {
        let times = row.done_ns.as_ref().map(of);
        times.map_or("-".to_owned(), |ns| ns.to_string())
    };
    say!(
        "{:7} {:12} {:>6} {:>5} {:>11.0} {:>23} {:>9} {:>8} {:>8} {:>8} {:>8} {:>9.0} {:>8.3} {:>7.1} {:>7.0}",
        row.engine,
        row.scope,
        shard,
        row.pods,
        row.items_per_s,
        spread,
        steady,
        done(|times| times.p50),
        done(|times| times.p99),
        row.enqueue_ns.p50,
        row.enqueue_ns.p99,
        row.item.busy_ns,
        row.item.wakeups,
        row.item.line_transfers,
        row.item.lock_wait_ns.unwrap_or(row.item.line_wait_ns)
    );
    Ok(())
}
