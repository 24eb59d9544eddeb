//! One error type for building and changing: each value says what was wrong and what is allowed.
#![forbid(unsafe_code)]

use crate::topology::TopologyError;
use cmwq_topology::affinity::AffinityScope;
use std::{fmt, io};

/// Why an engine or a workqueue could not be built or changed.
///
/// ```
/// use cmwq::{Error, Workqueue};
///
/// match Workqueue::builder("log").ordered().max_active(2).build() {
///     Ok(_) => unreachable!("an ordered queue runs one item at a time"),
///     Err(error) => println!("{error}"), // says what was wrong and what is allowed
/// }
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The machine's description cannot be read or parsed.
    Topology(TopologyError),
    /// An environment variable has a value that is not allowed.
    Variable {
        /// The variable's name.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// A text that names no limit of running workers.
    CpuLimit {
        /// The text.
        given: String,
    },
    /// The default scope cannot be `default`.
    DefaultScope,
    /// The global engine exists already.
    AlreadyInUse,
    /// A workqueue's name with a NUL byte. Its rescuer and its traces need it as a string that ends with NUL.
    Name(String),
    /// A format for thread names that is not valid: see [`WorkerThreads::name`](crate::WorkerThreads::name).
    ThreadName(String),
    /// A [stack size](crate::WorkerThreads::stack_size) with which no thread can be created.
    StackSize {
        /// The size in bytes.
        bytes: usize,
        /// The largest size that the system would have granted at that moment.
        most: usize,
    },
    /// A nice level outside -20..=19.
    Nice(i32),
    /// A CPU that the topology does not have.
    NoSuchCpu {
        /// The CPU.
        cpu: usize,
        /// The CPUs that exist, as a list.
        allowed: String,
    },
    /// The calling thread cannot be bound.
    Binding {
        /// The requested CPU.
        cpu: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A thread cannot be created.
    Thread(io::Error),
    /// `max_active` of an ordered workqueue is always 1.
    OrderedMaxActive,
    /// Two options that exclude each other.
    Incompatible {
        /// The first.
        one: &'static str,
        /// The second.
        other: &'static str,
    },
    /// A CPU mask that has none of the existing CPUs.
    EmptyCpumask {
        /// The mask as it was given.
        given: String,
        /// The CPUs that exist.
        allowed: String,
    },
    /// A NUMA node that the topology does not have.
    NoSuchNode {
        /// The node.
        node: u32,
        /// The nodes that exist, as a list.
        allowed: String,
    },
    /// The workqueue belongs to the process that this one was forked from.
    Forked,
    /// The workqueue was destroyed, or never existed.
    NoSuchWorkqueue,
    /// The queue was built without a [bound](crate::WorkqueueBuilder::max_waiting) on how many items wait.
    NoMaxWaiting,
    /// All handles are in use.
    TooManyHandles {
        /// How many handles there can be.
        most: usize,
    },
}

/// The text that says which values of [`CpuLimit`](crate::types::CpuLimit) are allowed.
pub(crate) const CPU_LIMITS: &str = "auto, none, a number of workers from 1 to 4294967295";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Topology(error) => error.fmt(f),
            Error::Variable {
                name,
                value,
                allowed,
            } => write!(f, "{name} is '{value}'; allowed: {allowed}"),
            Error::CpuLimit { given } => {
                write!(f, "the CPU limit is {given:?}; allowed: {}", CPU_LIMITS)
            }
            Error::DefaultScope => {
                write!(
                    f,
                    "the default affinity scope cannot be 'default'; allowed: {}",
                    AffinityScope::CONCRETE_NAMES
                )
            }
            Error::AlreadyInUse => f.write_str(
                "the global engine exists already; set its parameters before the first workqueue",
            ),
            Error::Name(name) => write!(
                f,
                "the name of a workqueue is {name:?}; allowed: any text without a NUL byte"
            ),
            Error::ThreadName(name) => {
                write!(
                    f,
                    "the format of thread names is {name:?}; allowed: any text without a NUL byte, with %p, %i, %h and %%"
                )
            }
            Error::StackSize { bytes, most } => write!(
                f,
                "a thread with a stack of {bytes} bytes cannot be created; allowed: at most {most} bytes now"
            ),
            Error::Nice(nice) => write!(f, "nice level {nice} is out of range; allowed: -20 to 19"),
            Error::NoSuchCpu { cpu, allowed } => {
                // A value from C may be negative, so it is shown as a signed number.
                write!(
                    f,
                    "there is no CPU {}; allowed: {allowed}",
                    cpu.cast_signed()
                )
            }
            Error::Binding { cpu, source } => {
                write!(f, "the thread cannot be bound to CPU {cpu}: {source}")
            }
            Error::Thread(source) => write!(f, "a thread cannot be created: {source}"),
            Error::Forked => Refused::Forked.fmt(f),
            Error::Incompatible { one, other } => {
                write!(f, "a workqueue cannot be both {one} and {other}")
            }
            Error::EmptyCpumask { given, allowed } if given.is_empty() => {
                write!(f, "there is no CPU in the mask; allowed: {allowed}")
            }
            Error::EmptyCpumask { given, allowed } => {
                write!(f, "none of the CPUs '{given}' is there; allowed: {allowed}")
            }
            Error::NoSuchNode { node, allowed } => {
                write!(f, "there is no NUMA node {node}; allowed: {allowed}")
            }
            Error::NoSuchWorkqueue => {
                f.write_str("there is no such workqueue: it was destroyed, or never was")
            }
            Error::TooManyHandles { most } => {
                write!(f, "all {most} handles of workqueues are in use")
            }
            Error::NoMaxWaiting => f.write_str(
                "the workqueue was built without max_waiting, so that it has no bound to change",
            ),
            Error::OrderedMaxActive => {
                f.write_str("max_active of an ordered workqueue is 1 and cannot be changed")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Topology(error) => Some(error),
            Error::Binding { source, .. } | Error::Thread(source) => Some(source),
            _ => None,
        }
    }
}

impl From<TopologyError> for Error {
    fn from(error: TopologyError) -> Self {
        Error::Topology(error)
    }
}

/// Why the caller cannot wait for a workqueue or an item.
///
/// ```
/// use cmwq::types::FlushError;
/// use std::time::Duration;
///
/// let work = cmwq::Work::new(|| ());
/// match work.flush_timeout(Duration::from_secs(1)) {
///     Ok(_) => {}
///     Err(FlushError::TimedOut) => println!("it still runs"),
///     Err(other) => println!("{other}"),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushError {
    /// The caller would wait for its own end: it is the item that it waits for, or an item of the
    /// queue that it waits for, or an item that the calling thread runs while one of those waits
    /// for it. Or the item that it waits for cannot [begin](crate::raw::RawWork::flush) before the
    /// caller ends.
    OwnItem,
    /// The caller is a waker of a task. The library may call wakers on a worker between two items,
    /// and the waker might wait for that very worker.
    InWaker,
    /// The queue belongs to the process that this one was forked from. Its workers do not exist in
    /// this process.
    Forked,
    /// The deadline has passed, and the item has not ended. Only calls that take a timeout return this.
    TimedOut,
}

pub(crate) const OWN_ITEM: &str = "an item cannot wait for itself, for the whole of its workqueue, or for an item that cannot begin before it ends";

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlushError::OwnItem => f.write_str(OWN_ITEM),
            FlushError::InWaker => f.write_str("a waker of a task cannot wait for items"),
            FlushError::Forked => Refused::Forked.fmt(f),
            FlushError::TimedOut => f.write_str("the item has not ended within the time allowed"),
        }
    }
}

impl std::error::Error for FlushError {}

/// Why a workqueue refuses an item.
///
/// ```
/// # let queue = cmwq::Workqueue::builder("doc").build()?;
/// use cmwq::Refused;
///
/// match queue.execute(|| println!("handled")) {
///     Ok(()) => {}
///     Err(Refused::Full) => println!("503: try again later"),
///     Err(why) => println!("{why}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refused {
    /// The queue is being drained or destroyed, and the caller is not one of its items.
    Draining,
    /// The queue belongs to the process that this one was forked from. Its workers do not exist in
    /// this process.
    Forked,
    /// The item needs a timer, and the timer thread cannot be created.
    NoTimer,
    /// As many items wait as the [limit](crate::WorkqueueBuilder::max_waiting) allows.
    Full,
    /// The caller would wait for room that may come only when the caller ends: it is an item of
    /// this very queue, or a waker of a task that the library calls.
    OwnItem,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::Draining => "the workqueue is draining: only its own items may queue on it",
            Refused::Forked => {
                "the workqueue belongs to the parent process: build a new one after a fork"
            }
            Refused::NoTimer => "the thread that serves the timers cannot be created",
            Refused::Full => "the workqueue is full: as many items wait as may",
            Refused::OwnItem => {
                "an item, or a waker of a task, cannot wait for room in the workqueue"
            }
        })
    }
}

impl std::error::Error for Refused {}
