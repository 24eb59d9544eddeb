//! A TCP service that hashes and compresses, in three ways in turns: on cmwq, on tokio's blocking
//! threads, and inline on the executor.

mod client;
mod report;
mod server;
mod usage;
mod work;

use clap::{Parser, ValueEnum};
use report::Sample;
use server::Way;
use std::io::{self, BufRead, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use work::Kind;

/// Measures a TCP service that answers each message with its SHA-256 and the message compressed.
///
/// The service is built with tokio. What a request computes runs as an item of a cmwq workqueue, which the
/// connection's task awaits; on tokio's blocking threads (spawn_blocking); or in the task itself (inline).
/// The three take turns, each run is a new process, and the client shares the CPUs with it.
///
/// In the closed loop each connection sends its next request when the last one is answered. Then requests
/// come at 30, 60 and 90 % of the greatest rate that one of the three had in the closed loop of the first
/// round, whether or not the earlier ones were answered, and are timed from when they were due. Beside them
/// one connection sends light requests, which need no computing, each 2 ms after the last was answered. A
/// round of the usual 24 runs takes about half a minute.
#[derive(Parser)]
#[command(
    name = "benches/service/run",
    bin_name = "benches/service/run",
    after_help = "Examples:\n  benches/service/run --rounds 3\n  benches/service/run --bytes 1024,16384 --connections 64 --loads 60\n  \
                  benches/service/run --samples samples.jsonl --rounds 2     # again, and both count\n  \
                  benches/service/run --samples samples.jsonl --rounds 0 --format markdown"
)]
struct Args {
    /// Bytes of a message: about 18 µs of work for 4096
    #[arg(long, value_delimiter = ',', default_value = "4096", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    bytes: Vec<u32>,
    /// Numbers of connections
    #[arg(long, value_delimiter = ',', default_value = "8,64", value_parser = clap::value_parser!(u16).range(1..=1000))]
    connections: Vec<u16>,
    /// Loads in per cent, beside the closed loop
    #[arg(long, value_delimiter = ',', default_value = "30,60,90", value_parser = clap::value_parser!(u32).range(1..=1000))]
    loads: Vec<u32>,
    /// Measure the closed loop only
    #[arg(long, conflicts_with = "loads")]
    closed: bool,
    /// Which ways
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "cmwq,spawn-blocking,inline"
    )]
    ways: Vec<Way>,
    /// How often each way is measured under each load
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(0..=1000))]
    rounds: u32,
    /// Measured time of a run, in milliseconds
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(10..=600_000))]
    time_ms: u64,
    /// One request in so many sleeps for a millisecond, as one that waits for a disk does; 0: none
    #[arg(long, default_value_t = 0)]
    sleep_every: u32,
    /// Make a compressor (about 220 KB) for each request instead of one for each thread
    #[arg(long)]
    fresh: bool,
    /// Add what is measured to this file, and report on all that it holds
    #[arg(long, value_name = "FILE")]
    samples: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value = "human")]
    format: Format,
    /// Be the server, until the process is ended
    #[arg(long, hide = true)]
    serve: Option<Way>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Tables in columns
    Human,
    /// An array of rows
    Json,
    /// Tables for a page
    Markdown,
}

/// A server that ends with its guard.
struct Server {
    process: Child,
    address: SocketAddr,
}

impl Server {
    fn start(way: Way, kind: Kind) -> io::Result<Server> {
        let way = way.to_possible_value().expect("no way is hidden");
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "--serve",
            way.get_name(),
            "--sleep-every",
            &kind.sleep_every.to_string(),
        ]);
        if kind.fresh {
            command.arg("--fresh");
        }
        let mut process = command.stdout(Stdio::piped()).spawn()?;
        let mut line = String::new();
        BufReader::new(process.stdout.take().expect("it is piped")).read_line(&mut line)?;
        let address = line.trim().parse().map_err(io::Error::other)?;
        Ok(Server { process, address })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One load, which all ways get.
#[derive(Clone, Copy)]
struct Point {
    bytes: usize,
    connections: usize,
    load: Option<u32>,
}

struct Bench {
    args: Args,
    samples: Vec<Sample>,
}

impl Bench {
    fn kind(&self) -> Kind {
        Kind {
            fresh: self.args.fresh,
            sleep_every: self.args.sleep_every,
        }
    }

    /// The greatest rate of a way in the closed loop, in the first round.
    fn full_load(&self, point: Point) -> f64 {
        let of = |way: &Way| {
            let mut found = self.samples.iter().filter(|sample| {
                (sample.bytes, sample.connections) == (point.bytes, point.connections)
                    && sample.load.is_none()
                    && (sample.fresh, sample.sleep_every)
                        == (self.args.fresh, self.args.sleep_every)
                    && sample.way == way.name()
            });
            found.next().map_or(0.0, |sample| sample.requests_per_s)
        };
        // At least one, where none was answered in so short a run.
        self.args.ways.iter().map(of).fold(1.0, f64::max)
    }

    fn measure(&self, way: Way, point: Point, seed: u64) -> io::Result<Sample> {
        let kind = self.kind();
        let server = Server::start(way, kind)?;
        let time = Duration::from_millis(self.args.time_ms);
        let offered = point
            .load
            .map(|load| self.full_load(point) * f64::from(load) / 100.0);
        let plan = client::Plan {
            connections: point.connections,
            rate: offered,
            bytes: point.bytes,
            warm_up: time.min(Duration::from_millis(300)),
            time,
            seed,
        };
        let times = client::run(server.address, &plan)?;
        let us = |histogram: &hdrhistogram::Histogram<u64>, quantile: f64| {
            histogram.value_at_quantile(quantile) as f64 / 1000.0
        };
        Ok(Sample {
            bytes: point.bytes,
            fresh: kind.fresh,
            sleep_every: kind.sleep_every,
            connections: point.connections,
            load: point.load,
            offered,
            way: way.name().to_owned(),
            requests_per_s: times.requests_per_s,
            p50_us: us(&times.latency, 0.5),
            p99_us: us(&times.latency, 0.99),
            p999_us: us(&times.latency, 0.999),
            light_p99_us: us(&times.light, 0.99),
            cpu_us: times.cpu_us,
            page_faults: times.page_faults,
            threads: times.threads,
        })
    }

    fn points(&self) -> Vec<Point> {
        let loads: &[u32] = if self.args.closed {
            &[]
        } else {
            &self.args.loads
        };
        let loads = std::iter::once(None).chain(loads.iter().copied().map(Some));
        let loads: Vec<_> = loads.collect();
        let mut points = Vec::new();
        for &bytes in &self.args.bytes {
            for &connections in &self.args.connections {
                points.extend(loads.iter().map(|&load| Point {
                    bytes: bytes as usize,
                    connections: usize::from(connections),
                    load,
                }));
            }
        }
        points
    }

    fn run(&mut self) -> io::Result<()> {
        let points = self.points();
        let start = Instant::now();
        for round in 0..self.args.rounds {
            for (at, &point) in points.iter().enumerate() {
                for turn in 0..self.args.ways.len() {
                    // Another one begins in each round.
                    let way = self.args.ways[(turn + round as usize) % self.args.ways.len()];
                    // All ways have the same arrivals.
                    let seed = 1 + u64::from(round) * 1000 + at as u64;
                    let sample = self.measure(way, point, seed)?;
                    if let Some(path) = &self.args.samples {
                        report::add(path, &sample)?;
                    }
                    self.samples.push(sample);
                }
            }
            let seconds = start.elapsed().as_secs();
            eprintln!(
                "round {} of {}, {seconds} s so far",
                round + 1,
                self.args.rounds
            );
        }
        Ok(())
    }

    fn report(&self) -> Result<(), Box<dyn std::error::Error>> {
        let rows = report::rows(&self.samples);
        if self.args.format == Format::Json {
            println!("{}", serde_json::to_string_pretty(&rows)?);
            return Ok(());
        }
        println!("{}\n", report::machine());
        for &bytes in &self.args.bytes {
            let us = work::microseconds(bytes as usize, self.args.fresh);
            println!("A request of {bytes} bytes takes {us:.1} µs on one thread alone.");
        }
        println!(
            "\n{}",
            report::tables(&rows, self.args.format == Format::Markdown).trim_end()
        );
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let samples = args
        .samples
        .as_deref()
        .map_or(Ok(Vec::new()), report::read)?;
    let mut bench = Bench { args, samples };
    if let Some(way) = bench.args.serve {
        return server::run(way, bench.kind());
    }
    bench.run()?;
    bench.report()
}
