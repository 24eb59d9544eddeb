//! A recording as a trace in Chrome's format, which Perfetto and chrome://tracing read.
//!
//! Process and threads have the system's numbers, so that the file goes together with traces of
//! other tools. The threads that only queue come first, then the workers, sorted by their pools,
//! which their names tell. An item's run is a slice, so is the moment of its queueing; an arrow (a
//! *flow*) leads from the one to the other.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use cmwq_control::protocol::{TraceChunk, TraceThread};
use serde_json::json;

/// As they travel: time, kind, item, function, queue, requested CPU, CPU.
type Event = (u64, u8, u64, u64, u64, i32, i32);

const QUEUE: u8 = 0;
const ACTIVATE: u8 = 1;
const START: u8 = 2;
const END: u8 = 3;

/// How long the queueing is drawn: its end is not recorded.
const QUEUEING_NS: u64 = 100;

/// What has been read so far.
pub(super) struct Trace {
    pid: u32,
    process: String,
    threads: BTreeMap<i32, TraceThread>,
    functions: BTreeMap<u64, String>,
    queues: BTreeMap<u64, String>,
}

impl Trace {
    /// `process`: the name of the process.
    pub(super) fn new(pid: u32, process: String) -> Self {
        Trace {
            pid,
            process,
            threads: BTreeMap::new(),
            functions: BTreeMap::new(),
            queues: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, chunk: TraceChunk) {
        for thread in chunk.threads {
            let own = self.threads.entry(thread.tid).or_default();
            own.lost += thread.lost;
            own.events.extend(thread.events);
            own.tid = thread.tid;
            own.name = thread.name;
            own.pool = thread.pool;
        }
        self.functions.extend(chunk.functions);
        self.queues.extend(chunk.queues);
    }

    /// How many events there are.
    pub(super) fn len(&self) -> usize {
        self.threads
            .values()
            .map(|thread| thread.events.len())
            .sum()
    }

    /// How many are missing.
    pub(super) fn lost(&self) -> u64 {
        self.threads.values().map(|thread| thread.lost).sum()
    }

    fn function(&self, event: &Event) -> String {
        let known = self.functions.get(&event.3);
        known.cloned().unwrap_or_else(|| format!("{:#x}", event.3))
    }

    fn queue(&self, event: &Event) -> String {
        let known = self.queues.get(&event.4);
        known
            .cloned()
            .unwrap_or_else(|| format!("queue {:#x}", event.4))
    }

    /// The flow that each queueing begins and each run ends: by thread and index in its events.
    fn flows(&self) -> HashMap<(i32, usize), u64> {
        let mut all: Vec<(u64, i32, usize, Event)> = self
            .threads
            .iter()
            .flat_map(|(tid, thread)| {
                let events = thread.events.iter().enumerate();
                events.map(move |(at, event)| (event.0, *tid, at, *event))
            })
            .filter(|(.., event)| matches!(event.1, QUEUE | START))
            .collect();
        all.sort_unstable();
        let mut pending: HashMap<u64, (u64, (i32, usize))> = HashMap::new();
        let mut flows = HashMap::new();
        let mut next = 1;
        for (_, tid, at, event) in all {
            if event.1 == QUEUE {
                pending.insert(event.2, (next, (tid, at)));
                next += 1;
            } else if let Some((flow, from)) = pending.remove(&event.2) {
                flows.insert(from, flow);
                flows.insert((tid, at), flow);
            }
        }
        flows
    }

    /// The whole file.
    pub(super) fn render(&self) -> String {
        let flows = self.flows();
        let first = self
            .threads
            .values()
            .filter_map(|thread| thread.events.first())
            .map(|event| event.0)
            .min()
            .unwrap_or(0);
        let mut out = Out::new(first, self.pid);
        out.about("process_name", 0, json!({ "name": self.process }));
        for thread in self.threads.values() {
            let (at, name) = match &thread.pool {
                Some((pool, cpus)) => {
                    let name = format!("{} (pool {pool}: CPUs {cpus})", thread.name);
                    (u64::from(*pool) + 1, name)
                }
                None => (0, thread.name.clone()),
            };
            out.about("thread_name", thread.tid, json!({ "name": name }));
            let sorted = json!({ "sort_index": at });
            out.about("thread_sort_index", thread.tid, sorted);
            self.render_thread(thread, &flows, &mut out);
        }
        out.finish()
    }

    fn render_thread(
        &self,
        thread: &TraceThread,
        flows: &HashMap<(i32, usize), u64>,
        out: &mut Out,
    ) {
        let tid = thread.tid;
        // The innermost run last: an item that waits for another one may run it.
        let mut running: Vec<Event> = Vec::new();
        for (at, event) in thread.events.iter().enumerate() {
            let flow = flows.get(&(tid, at));
            match event.1 {
                QUEUE => {
                    let next = thread.events.get(at + 1).map_or(u64::MAX, |next| next.0);
                    let until = event.0.saturating_add(QUEUEING_NS).min(next);
                    let name = format!("queue {}", self.function(event));
                    let args = json!({
                        "workqueue": self.queue(event), "work": format!("{:#x}", event.2),
                        "req_cpu": event.5, "cpu": event.6,
                    });
                    out.slice(tid, "workqueue_queue_work", &name, event.0, until, args);
                    if let Some(flow) = flow {
                        out.flow("s", tid, event.0, *flow);
                    }
                }
                ACTIVATE => {
                    let ts = out.us(event.0);
                    out.line(json!({
                        "ph": "i", "s": "t", "cat": "workqueue_activate_work", "pid": self.pid, "tid": tid, "ts": ts,
                        "name": format!("activate {}", self.function(event)),
                        "args": { "work": format!("{:#x}", event.2) },
                    }));
                }
                START => {
                    if thread.lost > 0 {
                        // The end of what seems to run may be what was lost.
                        running.clear();
                    }
                    running.push(*event);
                    if let Some(flow) = flow {
                        out.flow("f", tid, event.0, *flow);
                    }
                }
                END => {
                    // One that began before the recording has no beginning here.
                    if let Some(start) = running.pop_if(|start| start.2 == event.2) {
                        self.run(tid, &start, event.0, out);
                    }
                }
                _ => {}
            }
        }
        let last = thread.events.last().map_or(0, |event| event.0);
        for start in running {
            self.run(tid, &start, last, out);
        }
        if thread.lost > 0 {
            let ts = out.us(last);
            out.line(json!({
                "ph": "i", "s": "t", "name": format!("{} events lost", thread.lost), "pid": self.pid, "tid": tid, "ts": ts,
            }));
        }
    }

    fn run(&self, tid: i32, start: &Event, end_ns: u64, out: &mut Out) {
        let args = json!({
            "workqueue": self.queue(start), "work": format!("{:#x}", start.2)
        });
        let name = self.function(start);
        out.slice(tid, "workqueue_execute", &name, start.0, end_ns, args);
    }
}

/// Writes the events.
struct Out {
    pid: u32,
    text: String,
    first_ns: u64,
    empty: bool,
}

impl Out {
    fn new(first_ns: u64, pid: u32) -> Self {
        Out {
            pid,
            text: "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[".to_owned(),
            first_ns,
            empty: true,
        }
    }

    /// Microseconds since the first event, as the format wants them.
    fn us(&self, ns: u64) -> f64 {
        ns.saturating_sub(self.first_ns) as f64 / 1000.0
    }

    fn line(&mut self, event: serde_json::Value) {
        let comma = if self.empty { "" } else { "," };
        self.empty = false;
        // Writing to a string cannot fail.
        let _ = write!(self.text, "{comma}\n{event}");
    }

    /// Says something about the process, or a thread of it.
    fn about(&mut self, what: &str, tid: i32, args: serde_json::Value) {
        self.line(json!({ "ph": "M", "name": what, "pid": self.pid, "tid": tid, "args": args }));
    }

    fn slice(
        &mut self,
        tid: i32,
        category: &str,
        name: &str,
        from_ns: u64,
        to_ns: u64,
        args: serde_json::Value,
    ) {
        let (ts, end) = (self.us(from_ns), self.us(to_ns));
        self.line(json!({
            "ph": "X", "cat": category, "name": name, "pid": self.pid, "tid": tid, "ts": ts,
            "dur": (end - ts).max(0.0), "args": args,
        }));
    }

    fn flow(&mut self, phase: &str, tid: i32, at_ns: u64, id: u64) {
        let ts = self.us(at_ns);
        let mut event = json!({
            "ph": phase, "cat": "work", "name": "work", "pid": self.pid, "tid": tid, "ts": ts, "id": id
        });
        if phase == "f" {
            // It ends at the slice that begins here.
            event["bp"] = json!("e");
        }
        self.line(event);
    }

    fn finish(mut self) -> String {
        self.text += "\n]}\n";
        self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn thread(tid: i32, pool: Option<u32>, events: Vec<Event>) -> TraceThread {
        TraceThread {
            tid,
            name: format!("thread {tid}"),
            pool: pool.map(|pool| (pool, "0-1".to_owned())),
            lost: 0,
            events,
        }
    }

    fn rendered(chunks: Vec<TraceChunk>) -> Vec<Value> {
        let mut trace = Trace::new(4321, "my-server".to_owned());
        chunks.into_iter().for_each(|chunk| trace.add(chunk));
        let text = trace.render();
        let file: Value = serde_json::from_str(&text).expect("JSON");
        file["traceEvents"].as_array().expect("an array").clone()
    }

    #[test]
    fn an_arrow_leads_from_the_queueing_to_the_run_and_each_instance_has_its_own() {
        let (item, func, queue) = (0x1000, 0x20, 0x30);
        let issuer = vec![
            (1_000, QUEUE, item, func, queue, -1, -1),
            (5_000, QUEUE, item, func, queue, 3, -1),
        ];
        let worker = vec![
            // Began before the recording.
            (500, END, 7, func, queue, -1, -1),
            (1_500, ACTIVATE, item, func, 0, -1, -1),
            (2_000, START, item, func, queue, -1, -1),
            (3_000, END, item, func, queue, -1, -1),
            (6_000, START, item, func, queue, -1, -1),
        ];
        let mut first = TraceChunk {
            threads: vec![thread(1, None, issuer), thread(2, Some(4), worker)],
            ..TraceChunk::default()
        };
        first.functions.insert(func, "do_it".to_owned());
        first.queues.insert(queue, "io".to_owned());
        let later = TraceChunk {
            threads: vec![thread(
                2,
                Some(4),
                vec![(9_000, END, item, func, queue, -1, -1)],
            )],
            ..TraceChunk::default()
        };
        let events = rendered(vec![first, later]);
        let of = |phase: &str| -> Vec<&Value> {
            events.iter().filter(|event| event["ph"] == phase).collect()
        };
        let (begins, ends) = (of("s"), of("f"));
        assert_eq!((begins.len(), ends.len()), (2, 2));
        for (begin, end) in begins.iter().zip(&ends) {
            assert_eq!(begin["id"], end["id"]);
            assert_eq!((&begin["tid"], &end["tid"]), (&json!(1), &json!(2)));
            assert!(begin["ts"].as_f64() < end["ts"].as_f64());
        }
        assert_ne!(begins[0]["id"], begins[1]["id"]);
        let runs: Vec<&Value> = of("X")
            .into_iter()
            .filter(|event| event["cat"] == "workqueue_execute")
            .collect();
        assert_eq!(runs.len(), 2, "{runs:?}");
        assert_eq!(
            (&runs[0]["ts"], &runs[0]["dur"]),
            (&json!(1.5), &json!(1.0))
        );
        assert_eq!(runs[1]["dur"], json!(3.0));
        assert_eq!(runs[0]["name"], "do_it");
        assert_eq!(runs[0]["args"]["workqueue"], "io");
        assert_eq!(runs[0]["tid"], json!(2));
        assert!(events.iter().all(|event| event["pid"] == json!(4321)));
        let about = |what: &str| -> Vec<(&Value, &Value)> {
            let events = events.iter().filter(|event| event["name"] == what);
            events
                .map(|event| (&event["tid"], &event["args"]))
                .collect()
        };
        assert_eq!(
            about("process_name"),
            [(&json!(0), &json!({ "name": "my-server" }))]
        );
        assert_eq!(
            about("thread_name"),
            [
                (&json!(1), &json!({ "name": "thread 1" })),
                (&json!(2), &json!({ "name": "thread 2 (pool 4: CPUs 0-1)" })),
            ]
        );
    }

    #[test]
    fn what_was_lost_and_what_has_not_ended_is_shown() {
        let mut own = thread(
            5,
            Some(1),
            vec![(10, START, 1, 2, 3, -1, -1), (70, QUEUE, 9, 2, 3, -1, -1)],
        );
        own.lost = 17;
        let events = rendered(vec![TraceChunk {
            threads: vec![own],
            ..TraceChunk::default()
        }]);
        assert!(events.iter().any(|event| event["name"] == "17 events lost"));
        let run = events
            .iter()
            .find(|event| event["cat"] == "workqueue_execute");
        assert_eq!(run.expect("drawn to the end")["dur"], json!(0.06));
    }

    #[test]
    fn an_item_that_runs_inside_another_one_is_a_slice_inside_its_slice() {
        let (outer, inner) = (0x1000, 0x2000);
        let events = rendered(vec![TraceChunk {
            threads: vec![thread(
                5,
                Some(1),
                vec![
                    (1_000, START, outer, 2, 3, -1, -1),
                    (2_000, QUEUE, inner, 4, 3, -1, -1),
                    (3_000, START, inner, 4, 3, -1, -1),
                    (5_000, END, inner, 4, 3, -1, -1),
                    (8_000, END, outer, 2, 3, -1, -1),
                ],
            )],
            ..TraceChunk::default()
        }]);
        let mut runs: Vec<_> = events
            .iter()
            .filter(|event| event["cat"] == "workqueue_execute")
            .map(|event| (&event["args"]["work"], &event["ts"], &event["dur"]))
            .collect();
        runs.sort_by_key(|(work, ..)| work.as_str());
        assert_eq!(
            runs,
            [
                (&json!("0x1000"), &json!(0.0), &json!(7.0)),
                (&json!("0x2000"), &json!(2.0), &json!(2.0)),
            ]
        );
    }

    #[test]
    fn nothing_recorded_is_a_valid_file_too() {
        let events = rendered(Vec::new());
        assert_eq!(events.len(), 1, "only the process is named: {events:?}");
    }
}
