//! Weakens one memory ordering of the library's sources at a time, and runs what is meant to find
//! that: exploration on a virtual machine with a weak memory, and the models under loom which use
//! the ordering. See `scripts/orderings`.

mod run;
mod sites;
mod table;

use std::path::PathBuf;
use std::time::Duration;

pub(crate) use sites::{is_shipped, list};

/// Weakens one memory ordering of the library at a time, and says what finds it
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Lists the orderings, and runs nothing
    #[arg(long)]
    list: bool,
    /// Prints the table of what was found so far, and runs nothing
    #[arg(long)]
    table: bool,
    /// Only orderings in files whose path contains one of these
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Seeds that are explored for each weakened ordering at most
    #[arg(long, default_value_t = 2000)]
    seeds: u64,
    /// Seconds of exploration for each weakened ordering at most
    #[arg(long, default_value_t = 20)]
    explore: u64,
    /// Seconds for each model under loom at most
    #[arg(long, default_value_t = 20)]
    model: u64,
    /// Ends after so many seconds; the next run goes on there
    #[arg(long, default_value_t = 86_400)]
    seconds: u64,
    /// Processes of exploration at a time
    #[arg(long, default_value_t = 2)]
    jobs: usize,
    /// Repeats what no program has found before
    #[arg(long)]
    again: bool,
}

pub(crate) fn run(arguments: &Arguments) -> std::io::Result<()> {
    let root = PathBuf::from(".").canonicalize()?;
    let mut all = sites::find(&root.join("crates/cmwq/src"))?;
    let is_wanted = |site: &sites::Site| {
        arguments.only.is_empty() || arguments.only.iter().any(|part| site.file.contains(part))
    };
    if arguments.list {
        for site in all.iter().filter(|site| is_wanted(site)) {
            let (place, text) = (site.place(), &site.text);
            println!("{place}: {:?} {}: {text}", site.operation, site.shipped);
        }
        return Ok(());
    }
    let mut place = run::Place::new(&root)?;
    if arguments.table {
        all.retain(is_wanted);
        print!("{}", table::table(&all, &place.results));
        return Ok(());
    }
    place.build(&all)?;
    place.learn(Duration::from_secs(arguments.model))?;
    let limits = run::Limits {
        seeds: arguments.seeds,
        explore: arguments.explore,
        model: Duration::from_secs(arguments.model),
        jobs: arguments.jobs,
        again: arguments.again,
    };
    let until = place.began + Duration::from_secs(arguments.seconds);
    for (number, site) in all.iter().enumerate().filter(|(_, site)| is_wanted(site)) {
        let mut found = false;
        for to in site.weaker() {
            // Weaker still: found if the one before was.
            if found && to == "Relaxed" && site.shipped == "SeqCst" {
                continue;
            }
            if std::time::Instant::now() >= until {
                println!("the time is over: the next run goes on here");
                return Ok(());
            }
            found = place.try_one(number, site, to, &limits)?;
        }
    }
    Ok(())
}
