//! The data of `cmwq top`: the last states of the process, and the user's choice of what to show.

use std::collections::{HashMap, VecDeque};

use cmwq::affinity::AffinityScope;
use cmwq_control::protocol::{Engine, Pool, Queue, State, Times};
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Samples that a sparkline shows: as many as its column is wide.
pub(super) const HISTORY: usize = 8;

/// Runs that are remembered as the slowest: more than a screen shows. Short-lived queues have ever new names.
const SLOWEST: usize = 32;

/// What the workqueues are sorted by, the largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sort {
    Rate,
    Cpu,
    Waiting,
    Latency,
    Name,
}

impl Sort {
    pub(super) fn name(self) -> &'static str {
        match self {
            Sort::Rate => "items/s",
            Sort::Cpu => "CPU",
            Sort::Waiting => "waiting",
            Sort::Latency => "enqueue p99",
            Sort::Name => "name",
        }
    }

    fn next(self) -> Self {
        match self {
            Sort::Rate => Sort::Cpu,
            Sort::Cpu => Sort::Waiting,
            Sort::Waiting => Sort::Latency,
            Sort::Latency => Sort::Name,
            Sort::Name => Sort::Rate,
        }
    }
}

/// The request that a key sends to the process.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    None,
    Quit,
    /// Gives the terminal back for a while.
    Suspend,
    Set {
        queue: String,
        attribute: &'static str,
        value: String,
    },
}

/// A workqueue as it is shown.
#[derive(Clone, Debug)]
pub(super) struct Row {
    serial: u64,
    pub(super) key: String,
    pub(super) kind: String,
    pub(super) scope: String,
    pub(super) items_per_s: f64,
    pub(super) in_flight: u64,
    pub(super) waiting: usize,
    /// The bound on what waits, if there is one.
    pub(super) max_waiting: Option<usize>,
    pub(super) refused_per_s: f64,
    pub(super) cpu_percent: f64,
    pub(super) times: Times,
    pub(super) p99_ns: Option<u64>,
    pub(super) helps_per_s: f64,
    pub(super) history: Vec<u64>,
}

/// An item: one that runs, or the slowest run of its function that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) queue: String,
    pub(super) function: String,
    pub(super) tid: i32,
    pub(super) for_ns: u64,
}

/// A queue's rates between samples.
#[derive(Default)]
struct Seen {
    /// At the last sample: items started, CPU time, items stolen, attempts refused.
    counts: [u64; 4],
    items_per_s: VecDeque<f64>,
    cpu_percent: f64,
    helps_per_s: f64,
    refused_per_s: f64,
}

pub(super) struct Model {
    state: State,
    /// The time of the last sample.
    sampled_ns: Option<u64>,
    seen: HashMap<u64, Seen>,
    /// By queue and function: the longest run in any sample.
    slowest: HashMap<(String, String), Item>,
    /// A row.
    selected: usize,
    /// The queue that the user has selected, wherever its row goes; `None`: the first row,
    /// whichever queue has it.
    chosen: Option<u64>,
    sort: Sort,
    filter: String,
    /// The filter is being typed.
    typing: bool,
    held: bool,
    message: String,
}

impl Model {
    pub(super) fn new() -> Self {
        Model {
            state: State {
                pid: 0,
                name: String::new(),
                at_ns: 0,
                engines: Vec::new(),
                groups: Vec::new(),
                counters: Vec::new(),
            },
            sampled_ns: None,
            seen: HashMap::new(),
            slowest: HashMap::new(),
            selected: 0,
            chosen: None,
            sort: Sort::Rate,
            filter: String::new(),
            typing: false,
            held: false,
            message: String::new(),
        }
    }

    /// What the headline says of a limit of running workers; nothing where there is none.
    pub(super) fn limit(&self) -> String {
        let limit = self.parameter("running_limit");
        limit.map_or_else(String::new, |limit| format!(" (at most {limit} run)"))
    }

    /// The CPU quota, and what belongs to it, in one line without the group's folder.
    pub(super) fn quota(&self) -> Option<String> {
        let quota = self.parameter("cpu_quota")?;
        let (cpus, more) = match quota.split_once(" (") {
            // The folder's name may have anything in it.
            Some((cpus, rest)) => (cpus, rest.rsplit_once(')').map_or("", |(_, more)| more)),
            None => (quota, ""),
        };
        Some(format!("CPU quota {cpus}{more}"))
    }

    /// The counters of the program's own in one line, if it has any.
    pub(super) fn counters(&self) -> Option<String> {
        let counters = self.state.counters.iter();
        let words: Vec<String> = counters
            .map(|counter| format!("{} {}", counter.name, counter.value))
            .collect();
        (!words.is_empty()).then(|| words.join(" · "))
    }

    /// The parameter in the first engine that has more to say than "none".
    fn parameter(&self, name: &str) -> Option<&str> {
        let engines = self.state.engines.iter();
        let mut values = engines.filter_map(|engine| engine.parameters.get(name));
        let value = values.find(|value| *value != "none");
        value.map(String::as_str)
    }

    /// Takes a new sample in.
    pub(super) fn look(&mut self, state: State) {
        let before_ns = self.sampled_ns.replace(state.at_ns);
        let seconds = before_ns.map(|before| state.at_ns.saturating_sub(before) as f64 / 1e9);
        for queue in state.engines.iter().flat_map(|engine| &engine.queues) {
            let seen = self.seen.entry(queue.serial).or_default();
            let counts = [queue.started, queue.cpu_ns, queue.stolen, queue.refused];
            // A queue that was not there began with nothing.
            let before = std::mem::replace(&mut seen.counts, counts);
            let Some(seconds) = seconds else {
                continue;
            };
            let rate = |at: usize| match seconds > 0.0 {
                true => counts[at].saturating_sub(before[at]) as f64 / seconds,
                false => 0.0,
            };
            seen.items_per_s.push_back(rate(0));
            if seen.items_per_s.len() > HISTORY {
                seen.items_per_s.pop_front();
            }
            seen.cpu_percent = rate(1) / 1e7;
            seen.helps_per_s = rate(2);
            seen.refused_per_s = rate(3);
        }
        self.show(state);
    }

    /// Takes a state in that is no sample: rates stay those between samples.
    pub(super) fn show(&mut self, state: State) {
        self.state = state;
        let alive: Vec<u64> = self.queues().map(|queue| queue.serial).collect();
        self.seen.retain(|serial, _| alive.contains(serial));
        for item in self.running() {
            let id = (item.queue.clone(), item.function.clone());
            let slowest = self.slowest.entry(id).or_insert_with(|| item.clone());
            if item.for_ns >= slowest.for_ns {
                *slowest = item;
            }
        }
        for item in self.slowest().into_iter().skip(SLOWEST) {
            self.slowest.remove(&(item.queue, item.function));
        }
        self.find_chosen();
    }

    /// The order of the rows may have changed.
    fn find_chosen(&mut self) {
        let rows = self.rows();
        let chosen = rows.iter().position(|row| Some(row.serial) == self.chosen);
        self.selected = chosen.unwrap_or_else(|| {
            self.chosen = None;
            self.selected.min(rows.len().saturating_sub(1))
        });
    }

    fn select(&mut self, row: usize) {
        self.selected = row;
        self.chosen = self.rows().get(row).map(|row| row.serial);
    }

    pub(super) fn say(&mut self, message: String) {
        self.message = message;
    }

    fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.state.engines.iter().flat_map(|engine| &engine.queues)
    }

    /// Why there is nothing to show: the process has made no workqueue yet, or has none any more.
    pub(super) fn emptiness(&self) -> Option<&'static str> {
        match (self.state.engines.is_empty(), self.queues().next()) {
            (true, _) => Some("no workqueue yet"),
            (false, None) => Some("no workqueue now"),
            (false, Some(_)) => None,
        }
    }

    pub(super) fn engines(&self) -> &[Engine] {
        &self.state.engines
    }

    pub(super) fn process(&self) -> (u32, &str) {
        (self.state.pid, &self.state.name)
    }

    pub(super) fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.state.engines.iter().flat_map(|engine| &engine.pools)
    }

    /// The workqueues that are shown, in their order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let shown = self
            .queues()
            .filter(|queue| queue.key.contains(&self.filter));
        let mut rows: Vec<Row> = shown.map(|queue| self.row(queue)).collect();
        let largest_first = |a: f64, b: f64| b.total_cmp(&a);
        rows.sort_by(|a, b| {
            let order = match self.sort {
                Sort::Rate => largest_first(a.items_per_s, b.items_per_s),
                Sort::Cpu => largest_first(a.cpu_percent, b.cpu_percent),
                Sort::Waiting => b.waiting.cmp(&a.waiting),
                Sort::Latency => b.p99_ns.cmp(&a.p99_ns),
                Sort::Name => std::cmp::Ordering::Equal,
            };
            order.then_with(|| a.key.cmp(&b.key))
        });
        rows
    }

    fn row(&self, queue: &Queue) -> Row {
        let nothing = Seen::default();
        let seen = self.seen.get(&queue.serial).unwrap_or(&nothing);
        let scope = queue.attributes.get("affinity_scope");
        let active: usize = queue.pwqs.iter().map(|(_, active, _)| active).sum();
        let inactive: usize = queue.pwqs.iter().map(|(_, _, inactive)| inactive).sum();
        let in_flight = queue.started.saturating_sub(queue.completed);
        let running = usize::try_from(in_flight).unwrap_or(usize::MAX);
        Row {
            serial: queue.serial,
            key: queue.key.clone(),
            kind: queue.kind.clone(),
            scope: scope.map_or_else(|| "-".to_owned(), |scope| short_scope(scope)),
            items_per_s: seen.items_per_s.back().copied().unwrap_or(0.0),
            in_flight,
            waiting: match queue.room {
                Some((waiting, _)) => waiting,
                None => active.saturating_sub(running) + inactive,
            },
            max_waiting: queue.room.map(|(_, most)| most),
            refused_per_s: seen.refused_per_s,
            cpu_percent: seen.cpu_percent,
            times: queue.times.clone(),
            p99_ns: queue.enqueue_p99_ns,
            helps_per_s: seen.helps_per_s,
            history: seen.items_per_s.iter().map(|rate| *rate as u64).collect(),
        }
    }

    /// What runs now, the longest first.
    pub(super) fn running(&self) -> Vec<Item> {
        let runs = self.pools().flat_map(|pool| &pool.runs);
        let mut items: Vec<Item> = runs
            .map(|run| Item {
                queue: run.queue.clone(),
                function: run.function.clone(),
                tid: run.tid,
                for_ns: run.for_ns,
            })
            .collect();
        items.sort_by(|a, b| b.for_ns.cmp(&a.for_ns).then_with(|| a.tid.cmp(&b.tid)));
        items
    }

    /// The longest run of each function that was seen, the longest first.
    pub(super) fn slowest(&self) -> Vec<Item> {
        let mut items: Vec<Item> = self.slowest.values().cloned().collect();
        items.sort_by(|a, b| {
            b.for_ns
                .cmp(&a.for_ns)
                .then_with(|| a.function.cmp(&b.function))
        });
        items
    }

    pub(super) fn selected(&self) -> usize {
        self.selected
    }

    pub(super) fn sort(&self) -> Sort {
        self.sort
    }

    pub(super) fn is_held(&self) -> bool {
        self.held
    }

    /// The filter, and whether it is being typed.
    pub(super) fn filter(&self) -> (&str, bool) {
        (&self.filter, self.typing)
    }

    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// What a key does here, and what it asks the process for.
    pub(super) fn key(&mut self, key: KeyEvent) -> Action {
        if (key.modifiers).intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
            return match key.code {
                KeyCode::Char('c') if key.modifiers == KeyModifiers::CONTROL => Action::Quit,
                KeyCode::Char('z') if key.modifiers == KeyModifiers::CONTROL => Action::Suspend,
                _ => Action::None,
            };
        }
        if self.typing {
            match key.code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => {
                    self.typing = false;
                    self.filter.clear();
                }
                KeyCode::Backspace => {
                    self.filter.pop();
                }
                KeyCode::Char(c) => self.filter.push(c),
                _ => {}
            }
            (self.selected, self.chosen) = (0, None);
            return Action::None;
        }
        self.message.clear();
        let last = self.rows().len().saturating_sub(1);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Action::Quit,
            KeyCode::Down | KeyCode::Char('j') => self.select((self.selected + 1).min(last)),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Char('s') => {
                self.sort = self.sort.next();
                self.find_chosen();
            }
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char(' ') => self.held = !self.held,
            KeyCode::Char('a') => return self.change("affinity_scope", next_scope),
            KeyCode::Char('S') => {
                return self.change("affinity_strict", |now| {
                    let turned = if now == "0" { "1" } else { "0" };
                    Some(turned.to_owned())
                });
            }
            KeyCode::Char('+') => {
                return self.change("max_active", |now| {
                    Some((now.parse::<usize>().ok()? * 2).min(2048).to_string())
                });
            }
            KeyCode::Char('-') => {
                return self.change("max_active", |now| {
                    Some((now.parse::<usize>().ok()? / 2).max(1).to_string())
                });
            }
            _ => {}
        }
        Action::None
    }

    /// A new value of an attribute of the selected workqueue, from the one that it has.
    fn change(
        &mut self,
        attribute: &'static str,
        next: impl FnOnce(&str) -> Option<String>,
    ) -> Action {
        self.select(self.selected);
        let rows = self.rows();
        let Some(row) = rows.get(self.selected) else {
            return Action::None;
        };
        let key = row.key.clone();
        let now = self
            .queues()
            .find(|queue| queue.key == key)
            .and_then(|queue| queue.attributes.get(attribute));
        match now.and_then(|now| next(now)) {
            Some(value) => Action::Set {
                queue: key,
                attribute,
                value,
            },
            None => {
                self.message = format!("{key} has no {attribute} to change");
                Action::None
            }
        }
    }
}

/// `default (cache_shard)` in a few columns.
fn short_scope(scope: &str) -> String {
    match scope.strip_prefix("default (") {
        Some(rest) => format!("={}", rest.trim_end_matches(')')),
        None => scope.to_owned(),
    }
}

/// The next scope in the kernel's order; after the last one comes `default`.
fn next_scope(now: &str) -> Option<String> {
    let name = now.split(' ').next().unwrap_or_default();
    let all = AffinityScope::ALL;
    let at = all.iter().position(|scope| scope.name() == name)?;
    Some(all[(at + 1) % all.len()].name().to_owned())
}
