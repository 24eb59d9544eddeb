//! The options of `cmwq-nbd serve`, and their reading.
//!
//! Values arrive as text and are read here, not by the argument parser, so that each bad one gives
//! one line that names the value and says what is allowed.
#![forbid(unsafe_code)]

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cmwq::affinity::AffinityScope;
use cmwq::raw::WQ_MAX_ACTIVE;
use cmwq_nbd::server::Endpoint;

use super::activation;
use cmwq_command::CliError;

const CIPHER: &str = "aes-xts-plain64";
const MAX_CONNECTIONS: usize = 4096;
/// Longer names are refused: clients need not take more.
const MAX_NAME: usize = 256;

#[derive(clap::Args, Debug, Clone, Default)]
#[command(after_help = "Examples:
  cmwq-nbd serve --memory 1G    # says where it listens
  head -c 64 /dev/urandom >key; chmod 600 key; truncate --size 1G disk.img
  cmwq-nbd serve disk.img --cipher aes-xts-plain64 --key-file key --socket /tmp/disk.sock
  nbdinfo 'nbd+unix:///?socket=/tmp/disk.sock'")]
pub(crate) struct Args {
    /// The file or block device to serve
    #[arg(
        value_name = "FILE",
        conflicts_with = "memory",
        required_unless_present = "memory"
    )]
    file: Option<PathBuf>,

    /// Serve SIZE bytes of memory instead, lost when the server ends; K, M, G and T are powers of 1024
    #[arg(long, value_name = "SIZE", allow_hyphen_values = true)]
    memory: Option<String>,

    /// Read and write the file by io_uring, so that no worker sleeps while the disk works
    #[arg(long, conflicts_with = "memory")]
    io_uring: bool,

    /// Encrypt what is stored with this cipher; the only one is aes-xts-plain64
    #[arg(long, value_name = "CIPHER", requires = "key_file")]
    cipher: Option<String>,

    /// Read the key from this file, which holds 32 or 64 bytes (256 or 512 bits)
    #[arg(long, value_name = "FILE", requires = "cipher")]
    key_file: Option<PathBuf>,

    /// Size of the blocks that are encrypted one by one: 512 or 4096 bytes [default: 512]
    #[arg(
        long,
        value_name = "BYTES",
        requires = "cipher",
        allow_hyphen_values = true
    )]
    sector_size: Option<String>,

    /// Listen at this Unix socket; only its owner may connect [default:
    /// $XDG_RUNTIME_DIR/cmwq-nbd/NAME.sock; for root without XDG_RUNTIME_DIR
    /// /run/cmwq-nbd/NAME.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "listen")]
    socket: Option<PathBuf>,

    /// Listen at this TCP address, such as 127.0.0.1:10809. Every user of this machine may connect
    /// there and read the decrypted disk. Addresses other than the loopback's need --allow-remote.
    /// Port 0 takes any free port
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,

    /// Allow --listen at an address that other machines reach. There is no authentication, and data
    /// are sent unencrypted
    #[arg(long)]
    allow_remote: bool,

    /// Refuse writes
    #[arg(long)]
    read_only: bool,

    /// Name of the disk that clients ask for (the export's name); the empty name always works too
    /// [default: the file's name, or memory]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    #[arg(long, value_name = "SCOPE", help = format!("The affinity scope, which says which CPUs share a worker pool: {}", scope_names()))]
    affinity_scope: Option<String>,

    /// Carry out each request on the CPUs (the pod) that it arrived at: idle workers elsewhere do
    /// not take it, and the reader of a connection carries out none itself
    #[arg(long)]
    strict: bool,

    /// Which requests the thread that reads a connection carries out itself: short (at most 8 KiB,
    /// served from memory or from the page cache; and of requests of at most 64 KiB the one that
    /// came alone, or in memory last of several) or none, so that every request becomes a work item
    /// [default: short]
    #[arg(long, value_name = "WHICH")]
    inline: Option<String>,

    /// How many requests are carried out at the same time; each NUMA node has a share of them [default: 1024]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    max_active: Option<String>,

    /// About how many cores make up a cache shard [default: CMWQ_CACHE_SHARD_SIZE, or else 8]
    #[arg(long, value_name = "CORES", allow_hyphen_values = true)]
    shard_size: Option<String>,

    /// How many clients may be connected at the same time [default: 256]
    #[arg(long, value_name = "N", allow_hyphen_values = true)]
    connections: Option<String>,

    /// Serve the control endpoint, for `cmwq top`, `get`, `set` and the like (also with CMWQ_CONTROL=1)
    #[arg(long)]
    pub(super) control: bool,
}

/// What is kept there.
#[derive(Debug)]
pub(super) enum Source {
    File(PathBuf),
    Memory(u64),
}

#[derive(Debug)]
pub(super) struct Options {
    pub(super) source: Source,
    pub(super) io_uring: bool,
    pub(super) key_file: Option<PathBuf>,
    pub(super) sector_size: usize,
    /// Where to listen, and how that was given. `None`: at the default socket.
    pub(super) endpoint: Option<(Endpoint, String)>,
    pub(super) read_only: bool,
    pub(super) name: String,
    pub(super) scope: AffinityScope,
    pub(super) strict: bool,
    pub(super) inline: bool,
    pub(super) max_active: usize,
    pub(super) shard_size: Option<usize>,
    pub(super) connections: usize,
}

impl Args {
    /// The options, read and checked.
    pub(super) fn options(&self) -> Result<Options, CliError> {
        if let Some(cipher) = self.cipher.as_deref().filter(|cipher| *cipher != CIPHER) {
            return Err(CliError::new(format!(
                "--cipher: {cipher:?} is not known: it must be {CIPHER}"
            )));
        }
        let source = match (&self.file, &self.memory) {
            (_, Some(text)) => Source::Memory(size(text).map_err(|why| {
                CliError::new(format!("--memory: {text:?} is not a size: {why}"))
            })?),
            (Some(path), None) => Source::File(path.clone()),
            (None, None) => return Err(CliError::new("nothing to serve: FILE or --memory SIZE")),
        };
        let number = |option: &str, text: &Option<String>, default, most| match text {
            None => Ok(default),
            Some(text) => whole_number(option, text, most),
        };
        Ok(Options {
            name: self.export_name(&source)?,
            source,
            io_uring: self.io_uring,
            key_file: self.key_file.clone(),
            sector_size: match self.sector_size.as_deref() {
                None | Some("512") => 512,
                Some("4096") => 4096,
                Some(other) => {
                    return Err(CliError::new(format!(
                        "--sector-size: {other:?} is not possible: it must be 512 or 4096"
                    )));
                }
            },
            endpoint: self.endpoint()?,
            read_only: self.read_only,
            scope: self
                .affinity_scope
                .as_deref()
                .map_or(Ok(AffinityScope::Default), scope)?,
            strict: self.strict,
            inline: match self.inline.as_deref() {
                None | Some("short") => true,
                Some("none") => false,
                Some(other) => {
                    return Err(CliError::new(format!(
                        "--inline: {other:?} is not known: it must be short or none"
                    )));
                }
            },
            max_active: number("--max-active", &self.max_active, 0, WQ_MAX_ACTIVE)?,
            shard_size: self
                .shard_size
                .as_ref()
                .map(|text| whole_number("--shard-size", text, u32::MAX as usize))
                .transpose()?,
            connections: number("--connections", &self.connections, 256, MAX_CONNECTIONS)?,
        })
    }

    fn endpoint(&self) -> Result<Option<(Endpoint, String)>, CliError> {
        if let Some(socket) = activation::socket()? {
            if self.socket.is_some() || self.listen.is_some() {
                return Err(CliError::new(
                    "--socket, --listen: the service manager has passed a socket already",
                ));
            }
            let socket = Arc::new(socket);
            let place = "the socket passed".to_owned();
            return Ok(Some((Endpoint::Inherited(socket), place)));
        }
        if let Some(path) = &self.socket {
            return Ok(Some((
                Endpoint::Unix(path.clone()),
                path.display().to_string(),
            )));
        }
        let Some(text) = self.listen.as_deref() else {
            return Ok(None);
        };
        let address: SocketAddr = text.parse().map_err(|_| {
            CliError::new(format!(
                "--listen: {text:?} is not an address: it must be like 127.0.0.1:10809 or [::1]:10809"
            ))
        })?;
        if !address.ip().is_loopback() && !self.allow_remote {
            return Err(CliError::new(format!(
                "--listen: {text:?} can be reached by others, without authentication: it must be of the loopback \
                 (127.0.0.1 or [::1]), or --allow-remote must say that this is meant"
            )));
        }
        Ok(Some((Endpoint::Tcp(address), text.to_owned())))
    }

    fn export_name(&self, source: &Source) -> Result<String, CliError> {
        let name = match (&self.name, source) {
            (Some(name), _) => name.clone(),
            (None, Source::Memory(_)) => "memory".to_owned(),
            (None, Source::File(path)) => path
                .file_name()
                .map_or_else(|| "disk".into(), |name| name.to_string_lossy())
                .into_owned(),
        };
        if name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control) {
            return Err(CliError::new(format!(
                "--name: {name:?} is not a name: it must have 1 to {MAX_NAME} bytes and no control characters"
            )));
        }
        Ok(name)
    }
}

/// The names of all scopes.
fn scope_names() -> String {
    AffinityScope::ALL.map(AffinityScope::name).join(", ")
}

/// An affinity scope by its exact name.
fn scope(text: &str) -> Result<AffinityScope, CliError> {
    AffinityScope::ALL
        .into_iter()
        .find(|scope| scope.name() == text)
        .ok_or_else(|| {
            CliError::new(format!(
                "--affinity-scope: {text:?} is not an affinity scope: it must be one of {}",
                scope_names()
            ))
        })
}

/// A number from 1 to `most`.
fn whole_number(option: &str, text: &str, most: usize) -> Result<usize, CliError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<usize> = digits.then(|| text.parse().ok()).flatten();
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| {
            CliError::new(format!(
                "{option}: {text:?} is not possible: it must be a whole number from 1 to {most}"
            ))
        })
}

/// Bytes, as `512M`: whole blocks of 512, up to what a file offset can express.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.as_bytes().last() {
        Some(b'K') => (&text[..text.len() - 1], 10),
        Some(b'M') => (&text[..text.len() - 1], 20),
        Some(b'G') => (&text[..text.len() - 1], 30),
        Some(b'T') => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let all_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number: Option<u64> = all_digits.then(|| digits.parse().ok()).flatten();
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .filter(|size| (512..=i64::MAX as u64).contains(size) && size.is_multiple_of(512))
        .ok_or_else(|| {
            "it must be a whole number of bytes, a multiple of 512, or one with K, M, G or T, like 512M, up to 8388607T"
                .to_owned()
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(change: impl FnOnce(&mut Args)) -> Result<Options, CliError> {
        let mut args = Args {
            memory: Some("1M".into()),
            ..Args::default()
        };
        change(&mut args);
        args.options()
    }

    fn refused(change: impl FnOnce(&mut Args)) -> String {
        let message = with(change).expect_err("must be refused").to_string();
        assert_eq!(message.lines().count(), 1, "{message}");
        message
    }

    #[test]
    fn sizes_are_whole_blocks() {
        assert_eq!(size("512").unwrap(), 512);
        assert_eq!(size("64K").unwrap(), 65536);
        assert_eq!(size("3G").unwrap(), 3 << 30);
        assert_eq!(size("8388607T").unwrap(), 8_388_607 << 40);
        for bad in [
            "", "K", "0", "511", "1.5G", "-1M", "8388608T", "1k", "M1", "1GB", "1é",
        ] {
            let message = refused(|args| args.memory = Some(bad.into()));
            assert!(message.contains(&format!("{bad:?}")), "{message}");
            assert!(message.contains("like 512M, up to"), "{message}");
        }
    }

    #[test]
    fn only_the_loopback_is_listened_at_unless_told_otherwise() {
        for open in ["0.0.0.0:1", "192.168.1.1:10809", "[::]:1"] {
            let message = refused(|args| args.listen = Some(open.into()));
            assert!(message.contains("--allow-remote"), "{message}");
            assert!(
                with(|args| {
                    args.listen = Some(open.into());
                    args.allow_remote = true;
                })
                .is_ok()
            );
        }
        assert!(with(|args| args.listen = Some("[::1]:0".into())).is_ok());
        let by_itself = with(|_| ()).unwrap().endpoint;
        assert!(by_itself.is_none(), "TCP is only where it is asked for");
        for bad in ["", "localhost", "127.0.0.1", "1.2.3.4:65536"] {
            assert!(refused(|args| args.listen = Some(bad.into())).contains("not an address"));
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_value() {
        let message = refused(|args| args.cipher = Some("aes-cbc-essiv".into()));
        assert!(message.contains("must be aes-xts-plain64"), "{message}");
        let message = refused(|args| args.sector_size = Some("1024".into()));
        assert!(message.contains("512 or 4096"), "{message}");
        let message = refused(|args| args.inline = Some("all".into()));
        assert!(message.contains("short or none"), "{message}");
        let message = refused(|args| args.affinity_scope = Some("Cache".into()));
        assert!(message.contains("cache_shard"), "{message}");
        for bad in ["0", "", "x", "-1", "2049"] {
            let message = refused(|args| args.max_active = Some(bad.into()));
            assert!(message.contains("from 1 to 2048"), "{message}");
        }
        assert!(refused(|args| args.name = Some(String::new())).contains("--name"));
    }
}
