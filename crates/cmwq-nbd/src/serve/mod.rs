//! `cmwq-nbd serve`: reads the options, starts the server, and waits for a signal to stop.

mod activation;
mod args;
mod place;
mod signals;

use std::fs::{Metadata, metadata};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use cmwq::raw::WQ_MAX_ACTIVE;
use cmwq::{Engine, WorkerThreads};
use cmwq_control::Counter;
use cmwq_nbd::cipher::Cipher;
use cmwq_nbd::export::{Export, Requests};
use cmwq_nbd::key::Key;
use cmwq_nbd::secret;
use cmwq_nbd::server::{Endpoint, Queues, Server};
use cmwq_nbd::store::{FileStore, MemoryStore, Store};

pub(crate) use args::{Args, size};
use args::{Options, Source};

use cmwq_command::{CliError, output};
use sd_notify::NotifyState;
use signals::Signals;

/// The counters' names.
pub(crate) const REQUESTS: &str = "nbd_requests";
pub(crate) const INLINE: &str = "nbd_requests_inline";

/// Has buffers, also those that slots keep, go back to the system with their connection. By default
/// glibc keeps them in its heaps once it has freed one, and they lie scattered there.
fn give_buffers_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a parameter of the allocator, which it cannot refuse.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 10);
    }
}

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    let options = args.options()?;
    give_buffers_back();
    if options.key_file.is_some() {
        // SAFETY: nothing before this uses the library.
        unsafe { secret::hold_ciphers() };
    }
    // Before signals are blocked: a key that comes through a pipe may never come.
    let cipher = options.key_file.as_deref().map(Key::read).transpose();
    let key = cipher.map_err(|error| CliError::failed(format!("--key-file: {error}")))?;
    options.key_file.as_deref().map(warn_of_readers);
    // Before any thread is made: all inherit what this one blocks.
    let signals = Signals::block().map_err(CliError::failed)?;
    let _control = match args.control {
        true => Some(cmwq_control::serve()),
        false => cmwq_control::serve_if_asked().transpose(),
    }
    .transpose()
    .map_err(|error| CliError::failed(format!("cannot serve: {error}")))?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let cipher = key
        .as_ref()
        .map(|key| Cipher::new(key, options.sector_size, 2 * threads))
        .transpose()
        .map_err(CliError::failed)?;
    let encrypted = key.as_ref().map(Key::bits);
    // What is needed of it is in the cipher.
    drop(key);
    warn_of_swap();
    let store = store(&options)?;
    let queues = queues(&options, encrypted.is_some())?;
    let export = Export::new(&options.name, store, cipher, options.read_only);
    let export = Arc::new(export);
    let _counters = counters(&export)?;
    let (endpoint, place) = match options.endpoint {
        Some(given) => given,
        None => {
            let socket = place::default_socket(&options.name)?;
            let place = socket.display().to_string();
            (Endpoint::Unix(socket), place)
        }
    };
    let server = Server::start(export.clone(), queues, &endpoint, options.connections)
        .map_err(|error| CliError::failed(format!("cannot listen at {place}: {error}")))?;
    let how = match encrypted {
        Some(bits) => format!("aes-xts-plain64, {bits}-bit key"),
        None => "not encrypted".to_owned(),
    };
    output::print(&format!(
        "serving {} ({} bytes, {how}{}) at {}\n",
        options.name,
        export.size(),
        if options.read_only { ", read-only" } else { "" },
        server.uri()
    ))?;
    let status = format!("serving {} ({} bytes, {how})", options.name, export.size());
    activation::notify(NotifyState::Ready, &status);
    signals.wait().map_err(CliError::failed)?;
    activation::notify(NotifyState::Stopping, "answering what is in flight");
    server
        .stop()
        .map_err(|error| CliError::failed(format!("cannot sync {}: {error}", options.name)))
}

/// Shows at the control endpoint how many requests there were, and how many of them were no work items.
fn counters(export: &Arc<Export>) -> Result<[Counter; 2], CliError> {
    let show = |name, help, value: fn(Requests) -> u64| {
        let export = export.clone();
        Counter::show(name, help, move || value(export.requests())).map_err(CliError::failed)
    };
    Ok([
        show(REQUESTS, "Requests of all clients", |requests| requests.all)?,
        show(
            INLINE,
            "Requests that readers of connections carried out themselves: no work items",
            |requests| requests.inline,
        )?,
    ])
}

/// A key that every user can read is used all the same, as by cryptsetup.
fn warn_of_readers(key_file: &Path) {
    let others = |file: Metadata| file.is_file() && file.mode() & 0o004 != 0;
    if metadata(key_file).is_ok_and(others) {
        let path = key_file.display();
        crate::warn(format_args!(
            "--key-file: every user can read {path}, and so decipher the disk: chmod 600 {path}"
        ));
    }
}

/// Keys are used all the same where the system does not let them be locked.
fn warn_of_swap() {
    let Some(error) = secret::not_locked() else {
        return;
    };
    let why = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::OutOfMemory => {
            "the limit of locked memory is too low: raise it with `ulimit -l` or LimitMEMLOCK="
                .to_owned()
        }
        _ => error.to_string(),
    };
    crate::warn(format_args!(
        "keys may reach swap, since they cannot be locked in memory: {why}"
    ));
}

fn store(options: &Options) -> Result<Box<dyn Store>, CliError> {
    match &options.source {
        Source::Memory(size) => {
            if size % options.sector_size as u64 != 0 {
                return Err(CliError::new(format!(
                    "--memory: {size} bytes are not whole sectors: it must be a multiple of --sector-size, {}",
                    options.sector_size
                )));
            }
            let store = MemoryStore::new(*size)
                .map_err(|error| CliError::new(format!("--memory {size}: {error}")))?;
            Ok(Box::new(store))
        }
        Source::File(path) => {
            let block = if options.key_file.is_some() {
                options.sector_size as u32
            } else {
                1
            };
            let store = FileStore::open(path, options.read_only, block).map_err(|error| {
                let may_help = match error.kind() {
                    ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem
                        if !options.read_only =>
                    {
                        "; --read-only serves what may only be read"
                    }
                    _ => "",
                };
                CliError::failed(format!("{}: {error}{may_help}", path.display()))
            })?;
            if !options.io_uring {
                return Ok(Box::new(store));
            }
            let store = store
                .by_io_uring()
                .map_err(|error| CliError::failed(format!("--io-uring: {error}")))?;
            Ok(Box::new(store))
        }
    }
}

/// That of the requests is named as dm-crypt names its queue, and of the same kind: unbound. Both
/// have a rescuer, since memory may be needed to write memory out to this very disk.
/// `CPU_INTENSIVE` has no meaning there.
fn queues(options: &Options, encrypted: bool) -> Result<Queues, CliError> {
    let queue_error = |error: cmwq::Error| CliError::failed(error.to_string());
    // A write beyond the file size limit then fails, and does not end the process.
    let threads = WorkerThreads::new().block_signals(true);
    let mut engine = Engine::builder().worker_threads(threads);
    if let Some(cores) = options.shard_size {
        engine = engine.cache_shard_size(cores);
    }
    let engine = engine.build().map_err(queue_error)?;
    let queue = |prefix: &str, max_active| {
        let mut name = format!("{prefix}/{}", options.name);
        let most = (0..=31).rev().find(|&end| name.is_char_boundary(end));
        name.truncate(most.unwrap_or(0));
        let queue = engine.workqueue(&name).mem_reclaim();
        queue.max_active(max_active)
    };
    let requests = queue(
        if encrypted { "kcryptd" } else { "nbd" },
        options.max_active,
    )
    .affinity_scope(options.scope)
    .affinity_strict(options.strict);
    Ok(Queues {
        requests: requests.build().map_err(queue_error)?,
        replies: queue("replies", WQ_MAX_ACTIVE)
            .build()
            .map_err(queue_error)?,
        inline: options.inline,
    })
}
