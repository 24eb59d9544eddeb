//! The command line that the programs of all languages share: `PEER LOOP MODE [key=value]…`.

use std::time::Duration;

/// What a run is asked for.
pub(crate) struct Options {
    pub(crate) peer: String,
    pub(crate) lap: String,
    pub(crate) mode: String,
    pub(crate) issuers: usize,
    /// Whether it was asked for so many: a load of every day has a number of its own.
    pub(crate) issuers_set: bool,
    /// Threads of a pool that asks for a number.
    pub(crate) workers: usize,
    pub(crate) warmup: Duration,
    pub(crate) time: Duration,
    /// flood: items of a round, over all issuers.
    pub(crate) items: usize,
    /// window, block, stream: steps of the spin that make an item. hogged: steps of one spin.
    pub(crate) spin: u64,
    /// The loads of every day: what an item computes, unless the load's own.
    pub(crate) item_ns: Option<u64>,
    /// The loads of every day: notes who ran which items where, and reports it.
    pub(crate) watch: bool,
    /// idle: items. hogged: samples, over all batches.
    pub(crate) samples: usize,
    /// idle, stream: between two items. hogged: between two samples.
    pub(crate) period: Duration,
    /// hogged: items of a batch that compute, and how many spins each of them does.
    pub(crate) hogs: usize,
    pub(crate) spins: u64,
    /// hogged: samples beside the hogs of one batch.
    pub(crate) batch: usize,
}

impl Options {
    /// The error for a loop or mode that a peer does not have.
    pub(crate) fn unknown(&self) -> String {
        format!(
            "{}: no mode '{}' of loop '{}'; the program's list says which there are",
            self.peer, self.mode, self.lap
        )
    }

    /// From the arguments after the program's name.
    pub(crate) fn parse(arguments: &[String]) -> Result<Options, String> {
        let [peer, lap, mode, settings @ ..] = arguments else {
            return Err("expected: list, or PEER LOOP MODE [key=value]…".to_owned());
        };
        let cpus = crate::machine::allowed_cpus().len();
        let mut options = Options {
            peer: peer.clone(),
            lap: lap.clone(),
            mode: mode.clone(),
            issuers: 1,
            issuers_set: false,
            workers: cpus,
            warmup: Duration::from_millis(200),
            time: Duration::from_secs(1),
            items: 200_000,
            spin: 10_000,
            item_ns: None,
            watch: false,
            samples: 1_000,
            period: Duration::from_millis(2),
            hogs: 8,
            spins: 50_000,
            batch: 25,
        };
        for setting in settings {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("'{setting}': expected key=value"))?;
            let number: u64 = value
                .parse()
                .ok()
                .filter(|&number| number > 0 || key == "item_ns")
                .ok_or_else(|| format!("'{setting}': expected a whole number above 0"))?;
            match key {
                "issuers" => {
                    options.issuers = number as usize;
                    options.issuers_set = true;
                }
                "workers" => options.workers = number as usize,
                "warmup_ms" => options.warmup = Duration::from_millis(number),
                "time_ms" => options.time = Duration::from_millis(number),
                "items" => options.items = number as usize,
                "spin" => options.spin = number,
                "item_ns" => options.item_ns = Some(number),
                "watch" => options.watch = true,
                "samples" => options.samples = number as usize,
                "period_us" => options.period = Duration::from_micros(number),
                "hogs" => options.hogs = number as usize,
                "spins" => options.spins = number,
                "batch" => options.batch = number as usize,
                _ => {
                    return Err(format!(
                        "'{key}': expected issuers, workers, warmup_ms, time_ms, items, spin, item_ns, watch, samples, period_us, hogs, spins or batch"
                    ));
                }
            }
        }
        Ok(options)
    }
}
