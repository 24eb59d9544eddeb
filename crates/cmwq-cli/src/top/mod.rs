//! `cmwq top`: a running process on the whole screen.
//!
//! | file | holds |
//! |---|---|
//! | `model` | what was seen, and what keys change |
//! | `view` | how it is drawn |
//! | `svg` | the same as a picture |

mod model;
mod svg;
mod view;

use std::io::{self, IsTerminal};
use std::mem::ManuallyDrop;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cmwq_control::Client;
use ratatui::backend::TestBackend;
use ratatui::crossterm::cursor::Show;
use ratatui::crossterm::event::{self, Event, KeyEventKind};
use ratatui::crossterm::execute;
use ratatui::{DefaultTerminal, Terminal};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, kill_current_process_group};
use signal_hook::consts::{SIGCONT, SIGQUIT, SIGTSTP};
use signal_hook::low_level::emulate_default_handler;

use crate::control::{ProcessArgs, refused};
use crate::out_file::OutFile;
use crate::signals;
use cmwq_command::output::Stream;
use cmwq_command::{CliError, seconds_from};
use model::{Action, Model};

const EXAMPLES: &str = "\
Examples:
  cmwq bench --control            in another terminal
  cmwq top
  cmwq top -p my-server --interval 0.5
  cmwq top --interval 0.2 --snapshot top.svg

A pod (a group of CPUs with a common worker pool) is green while it has free CPUs, yellow when all are taken, and red when work waits as \
well. Its target is how many of its workers may run at a time: as many as it has CPUs, and more while some sleep in their items or \
compute for long. A workqueue whose scope is shown with = before it has the scope default; the name is what default means now.

Columns:
  items/s         items started
  infl            items started and not completed; in_flight in cmwq busy counts
                  those that wait, too
  wait            items queued and not started; with a bound on them (max_waiting)
                  as 12/100, red when the workqueue is full
  CPU%            CPU time of its items: 100 is one CPU
  wait p50, p99   50 and 99 of 100 sampled items waited no longer than this for
                  their start
  wait now        for how long the oldest of the sampled items that wait now
                  has waited
  run p50, p99    50 and 99 of 100 sampled items ran no longer than this; these
                  four are since the workqueue was made
  run now         for how long the oldest of the items that run now has run
  refu/s          attempts to queue that found the workqueue full
  enq p99         how long a call of queue() took
  steal           items that workers of another pod ran, each second
  trend           items/s of the last samples

In a narrow terminal some columns are left out.

So a handler is slow if its run p99 is long; its items wait for a place or a CPU if its wait p99 is. Both are those of all items of the \
workqueue together: build one queue for each handler whose times you want to know.

Panels below:
  running longest the items that run now, the longest first
  slowest seen    of each function of each workqueue the longest run that a
                  sample of top has found, the longest first. A run was at least
                  that long (≥): its end is not seen, and what runs between two
                  samples is not seen at all. So it says where to look; how long
                  runs are is run p99. With --interval 0.1 more is seen

A name that has no room loses its folders, its modules and its file in this order; one that begins with … lost its beginning.

Keys:
  up, down, k, j  select a workqueue
  s               sort by the next column
  /               show only workqueues whose name contains a text
  a               give the selected workqueue the next affinity scope
  S               switch its affinity_strict on or off
  +, -            double or halve its max_active
  space           stop and go on updating
  Ctrl-Z          suspend
  q               end";

#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    process: ProcessArgs,

    /// Seconds between two samples
    #[arg(
        short,
        long,
        value_name = "S",
        default_value = "1",
        allow_hyphen_values = true,
        value_parser = seconds_from(0.1, 3600.0)
    )]
    interval: Duration,

    /// Take 9 samples, write the screen at 80 columns and 24 lines as an SVG picture, and end
    #[arg(long, value_name = "FILE")]
    snapshot: Option<PathBuf>,
}

/// The longest wait for a key to take effect.
const KEY_WAIT: Duration = Duration::from_millis(50);
/// Samples before a snapshot: then the sparklines are full.
const SNAPSHOT_LOOKS: usize = model::HISTORY + 1;

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let interval = args.interval;
    let can_draw = io::stdout().is_terminal()
        && io::stdin().is_terminal()
        && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
    if args.snapshot.is_none() && !can_draw {
        return Err(CliError::failed(
            "top needs a terminal; `cmwq monitor` writes lines, and --snapshot FILE a picture",
        ));
    }
    let mut client = args.process.connect()?;
    // That the file cannot be written is found out before the samples are taken.
    let file = args.snapshot.as_ref();
    let file = file
        .map(|path| OutFile::open("--snapshot", path))
        .transpose()?;
    let mut model = Model::new();
    model.look(client.state().map_err(refused)?);
    match file {
        Some(file) => snapshot(&mut client, &mut model, interval, file),
        None => on_screen(&mut client, &mut model, interval),
    }
}

fn snapshot(
    client: &mut Client,
    model: &mut Model,
    interval: Duration,
    file: OutFile,
) -> Result<(), CliError> {
    for _ in 1..SNAPSHOT_LOOKS {
        std::thread::sleep(interval);
        model.look(client.state().map_err(refused)?);
    }
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).map_err(CliError::failed)?;
    terminal
        .draw(|frame| view::draw(frame, model))
        .map_err(CliError::failed)?;
    file.write(&svg::render(terminal.backend().buffer()))
}

/// Restores the terminal on every way out; a panic's is the hook that `ratatui` sets.
struct Screen;

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that is gone cannot be restored, and takes no message about it.
        let _ = ratatui::try_restore();
        let _ = execute!(io::stdout(), Show);
    }
}

/// Waits until a key may have been pressed, `wait` is over or a signal has come.
///
/// `crossterm` reads from a terminal that has hung up for ever, so it is never asked about one.
fn wait_for_key(wait: Duration) -> io::Result<()> {
    let stdin = io::stdin();
    let mut keys = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec::try_from(wait).map_err(io::Error::other)?;
    match poll(&mut keys, Some(&wait)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    match keys[0].revents().intersects(gone) {
        true => Err(io::Error::other("it has hung up")),
        false => Ok(()),
    }
}

/// After a stop: the shell had the terminal, and `crossterm` does not know it.
fn screen_anew() -> io::Result<DefaultTerminal> {
    ratatui::restore();
    ratatui::try_init()
}

fn on_screen(client: &mut Client, model: &mut Model, interval: Duration) -> Result<(), CliError> {
    let failed = |error: io::Error| CliError::failed(format!("the terminal: {error}"));
    // Signals are noticed between two keys.
    let end = signals::told_to_end().map_err(failed)?;
    let [quit, stop, cont] = [SIGQUIT, SIGTSTP, SIGCONT].map(signals::flag);
    let (quit, stop, cont) = (
        quit.map_err(failed)?,
        stop.map_err(failed)?,
        cont.map_err(failed)?,
    );
    // Its drop would say on standard error that the cursor cannot be shown, and panic if that is gone too.
    let mut terminal = ManuallyDrop::new(ratatui::try_init().map_err(failed)?);
    let screen = Screen;
    let has_color = cmwq_command::output::has_color(Stream::Out);
    let mut next_look = Instant::now() + interval;
    while !end.load(Ordering::Relaxed) {
        if quit.load(Ordering::Relaxed) {
            drop(screen);
            return emulate_default_handler(SIGQUIT).map_err(failed);
        }
        if stop.swap(false, Ordering::Relaxed) {
            ratatui::restore();
            emulate_default_handler(SIGTSTP).map_err(failed)?;
        }
        if cont.swap(false, Ordering::Relaxed) {
            terminal = ManuallyDrop::new(screen_anew().map_err(failed)?);
        }
        let drawn = terminal.draw(|frame| {
            view::draw(frame, model);
            if !has_color {
                view::without_colors(frame.buffer_mut());
            }
        });
        drawn.map_err(failed)?;
        if Instant::now() >= next_look {
            next_look = Instant::now() + interval;
            if !model.is_held() {
                model.look(client.state().map_err(refused)?);
            }
        }
        let wait = next_look.saturating_duration_since(Instant::now());
        wait_for_key(Duration::ZERO).map_err(failed)?;
        if !event::poll(Duration::ZERO).map_err(failed)? {
            wait_for_key(wait.min(KEY_WAIT)).map_err(failed)?;
            continue;
        }
        let Event::Key(key) = event::read().map_err(failed)? else {
            continue;
        };
        if key.kind == KeyEventKind::Release {
            continue;
        }
        match model.key(key) {
            Action::None => {}
            Action::Quit => return Ok(()),
            // As the terminal does where it sees to the key itself.
            Action::Suspend => {
                kill_current_process_group(Signal::TSTP).map_err(|error| failed(error.into()))?;
            }
            Action::Set {
                queue,
                attribute,
                value,
            } => {
                let result = client.set(&queue, attribute, &value);
                model.say(match result {
                    Ok(()) => format!("{queue}: {attribute} = {value}"),
                    Err(error) => error.to_string(),
                });
                model.show(client.state().map_err(refused)?);
            }
        }
    }
    Ok(())
}
