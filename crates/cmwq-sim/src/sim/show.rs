//! The table as text and as JSON.

use super::rows::{Row, Table};
use crate::Format;
use cmwq_command::CliError;

pub(super) fn print(table: &Table, format: Format) -> Result<(), CliError> {
    if format == Format::Json {
        return crate::print_json(table);
    }
    say!(
        "{} on {}, {}, {} issuers, seed {}: simulated",
        table.engine,
        table.machine,
        table.kind,
        table.issuers,
        table.seed
    );
    say!(
        "{:7} {:12} {:>6} {:>5} {:>11} {:>8} {:>8} {:>8} {:>8} {:>9} {:>9} {:>9} {:>7}",
        "engine",
        "scope",
        "shard",
        "pods",
        "items/s",
        "p50 ns",
        "p90",
        "p95",
        "p99",
        "lines",
        "line wait",
        "lock wait",
        "wakes"
    );
    for row in &table.rows {
        let ns = &row.enqueue_ns;
        let shard = match row.scope {
            "cache_shard" => row.shard_size.to_string(),
            _ => "-".to_owned(),
        };
        let lock = match row.item.lock_wait_ns {
            Some(ns) => format!("{ns:.0}"),
            None => "-".to_owned(),
        };
        say!(
            "{:7} {:12} {:>6} {:>5} {:>11.0} {:>8} {:>8} {:>8} {:>8} {:>9.1} {:>9.0} {:>9} {:>7.2}",
            row.engine,
            row.scope,
            shard,
            row.pods,
            row.items_per_s,
            ns.p50,
            ns.p90,
            ns.p95,
            ns.p99,
            row.item.line_transfers,
            row.item.line_wait_ns,
            lock,
            row.item.wakeups
        );
    }
    say!("lines, line wait, lock wait (ns) and wakes are for each item, all CPUs together");
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
        say!(
            "{}: shards of {} cores, {:.0} items/s; {others}",
            best.engine,
            best.shard_size,
            best.items_per_s
        );
    }
    Ok(())
}
