//! Recording for a client: it starts and stops at the client's request, and stops with its connection.

use crate::error::ControlError;
use crate::protocol::{MAX_TRACE_EVENTS, TraceChunk, TraceThread};
use crate::state;
use cmwq::Engine;
use cmwq::observe::{Recording, ThreadTrace, TraceEvent, TraceKind, function_name};
use std::collections::{HashMap, VecDeque};

/// Events that each thread's buffer holds unless the client says otherwise.
const DEFAULT_EVENTS: usize = 16 * 1024;
/// Events in one answer: about two megabytes of text.
const EVENTS_PER_CHUNK: usize = 20_000;

/// One client's recording.
#[derive(Default)]
pub(crate) struct Tracer {
    recording: Option<Recording>,
    /// Taken from the buffers and not sent yet.
    taken: VecDeque<ThreadTrace>,
}

impl Tracer {
    pub(crate) fn start(&mut self, events_per_thread: Option<usize>) -> Result<(), ControlError> {
        let events = events_per_thread.unwrap_or(DEFAULT_EVENTS);
        if !(1..=MAX_TRACE_EVENTS).contains(&events) {
            return Err(ControlError::inval(format!(
                "events_per_thread {events} is not possible: it must be a whole number from 1 to {MAX_TRACE_EVENTS}"
            )));
        }
        let recording = Recording::begin(events)
            .ok_or_else(|| ControlError::new("EBUSY", "a trace is being recorded already"))?;
        self.taken.clear();
        self.recording = Some(recording);
        Ok(())
    }

    pub(crate) fn read(&mut self) -> Result<TraceChunk, ControlError> {
        let recording = self.recording.as_ref().ok_or_else(none)?;
        if self.taken.is_empty() {
            self.taken.extend(recording.take());
        }
        let pods: HashMap<u32, String> = Engine::all()
            .iter()
            .flat_map(Engine::pool_states)
            .map(|pool| (pool.id, pool.pod.to_string()))
            .collect();
        let mut chunk = TraceChunk::default();
        let mut room = EVENTS_PER_CHUNK;
        while room > 0
            && let Some(thread) = self.taken.front_mut()
        {
            let part = room.min(thread.events.len());
            let rest = thread.events.split_off(part);
            let events = std::mem::replace(&mut thread.events, rest);
            room -= part;
            for event in &events {
                let name = || function_name(event.func);
                chunk
                    .functions
                    .entry(event.func as u64)
                    .or_insert_with(name);
            }
            chunk.threads.push(TraceThread {
                tid: thread.tid,
                name: thread.name.clone(),
                pool: thread
                    .pool
                    .map(|pool| (pool, pods.get(&pool).cloned().unwrap_or_default())),
                lost: std::mem::take(&mut thread.lost),
                events: events.iter().map(packed).collect(),
            });
            if thread.events.is_empty() {
                self.taken.pop_front();
            }
        }
        let queues = state::keyed_queues();
        let queues = queues.into_iter();
        chunk.queues = queues
            .map(|(key, _, queue)| (queue.id() as u64, key))
            .collect();
        chunk.more = !self.taken.is_empty();
        Ok(chunk)
    }

    pub(crate) fn stop(&mut self) -> Result<(), ControlError> {
        self.taken.clear();
        self.recording.take().map(drop).ok_or_else(none)
    }
}

fn none() -> ControlError {
    ControlError::inval("this connection records no trace: trace_start begins one")
}

fn packed(event: &TraceEvent) -> (u64, u8, u64, u64, u64, i32, i32) {
    let kind = match event.kind {
        TraceKind::QueueWork => 0,
        TraceKind::ActivateWork => 1,
        TraceKind::ExecuteStart => 2,
        TraceKind::ExecuteEnd => 3,
    };
    (
        event.at_ns,
        kind,
        event.item as u64,
        event.func as u64,
        event.queue as u64,
        event.requested_cpu,
        event.cpu,
    )
}
