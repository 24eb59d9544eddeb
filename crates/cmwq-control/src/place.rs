//! Where the sockets are: one folder for each user, one socket in it for each process, named by its number.
//!
//! The folder is `$XDG_RUNTIME_DIR/cmwq`, or, where that is not set, `/tmp/cmwq-UID`. Only its user
//! may enter it, and it is used only if it is a real folder that belongs to that user and that no
//! other user can enter: in `/tmp` another user could have made it first.

use crate::error::ControlError;
use rustix::fs::{FileType, Mode, lstat, mkdir};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The user that the process acts for.
pub(crate) fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn temporary(uid: u32) -> PathBuf {
    PathBuf::from(format!("/tmp/cmwq-{uid}"))
}

/// The folder for this process's own socket.
pub(crate) fn own_dir() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| Path::new(dir).is_absolute()) {
        Some(dir) => Path::new(&dir).join("cmwq"),
        None => temporary(own_uid()),
    }
}

/// Whether `dir` is a real folder that belongs to `uid` and that no other user can enter; `None`:
/// it is not there.
fn is_safe(dir: &Path, uid: u32) -> Option<Result<(), ControlError>> {
    let unsafe_because = |why: &str| ControlError::new("EPERM", format!("{} {why}", dir.display()));
    let stat = match lstat(dir) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return None,
        Err(error) => {
            return Some(Err(ControlError::io(
                &dir.display().to_string(),
                &error.into(),
            )));
        }
    };
    Some(
        if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
            Err(unsafe_because("is not a folder"))
        } else if stat.st_uid != uid {
            Err(unsafe_because(&format!(
                "belongs to user {}, not to user {uid}",
                stat.st_uid
            )))
        } else if stat.st_mode & 0o077 != 0 {
            Err(unsafe_because(
                "can be entered by others: its mode must be 0700",
            ))
        } else {
            Ok(())
        },
    )
}

/// The folder for this process's own socket, made if it is not there.
pub(crate) fn make_dir(dir: PathBuf) -> Result<PathBuf, ControlError> {
    match mkdir(&dir, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(ControlError::io(&dir.display().to_string(), &error.into())),
    }
    match is_safe(&dir, own_uid()) {
        Some(result) => result.map(|()| dir),
        None => Err(ControlError::noent(format!(
            "{} was removed while it was made",
            dir.display()
        ))),
    }
}

/// The name of a process's socket.
pub(crate) fn socket_name(pid: u32) -> String {
    format!("{pid}.sock")
}

fn pid_of(name: &OsStr) -> Option<u32> {
    name.to_str()?.strip_suffix(".sock")?.parse().ok()
}

/// The process that a socket is named after.
pub(crate) fn pid_of_path(path: &Path) -> Option<u32> {
    pid_of(path.file_name()?)
}

/// The sockets in a folder, with the processes that they are named after, in the order of their numbers.
fn sockets_in(dir: &Path) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut sockets: Vec<(u32, PathBuf)> = entries
        .filter_map(|entry| Some((pid_of(&entry.file_name())?, entry.path())))
        .collect();
    sockets.sort();
    sockets
}

/// Connects without waiting: a stopped process accepts nothing, and when as many clients as the
/// system lets queue up have given up on it, one more would wait for as long as it is stopped.
///
/// # Errors
/// The system's; [`WouldBlock`](io::ErrorKind::WouldBlock) if it would have to wait.
pub(crate) fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let socket = UnixStream::from(socket);
    socket.set_nonblocking(false)?;
    Ok(socket)
}

/// Removes the sockets of ended processes from the process's own folder: no process listens on them any more.
pub(crate) fn clean(dir: &Path) {
    for (_, path) in sockets_in(dir) {
        let gone = connect_at_once(&path)
            .is_err_and(|error| error.raw_os_error() == Some(libc::ECONNREFUSED));
        if gone {
            // Another process may have removed it first.
            let _ = fs::remove_file(path);
        }
    }
}

/// The folders where the sockets of processes may be that the caller may speak to: its own, and for
/// root those of all users.
fn dirs_to_search() -> Vec<(PathBuf, u32)> {
    let own = own_uid();
    let runtime = |uid: u32| PathBuf::from(format!("/run/user/{uid}/cmwq"));
    let mut dirs = vec![(own_dir(), own), (runtime(own), own), (temporary(own), own)];
    if own == 0 {
        let names = |dir: &str| -> Vec<String> {
            let entries = fs::read_dir(dir).into_iter().flatten().flatten();
            entries
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect()
        };
        let users = names("/run/user");
        let users = users.iter().filter_map(|name| name.parse().ok());
        dirs.extend(users.map(|uid| (runtime(uid), uid)));
        let users = names("/tmp");
        let users = users
            .iter()
            .filter_map(|name| name.strip_prefix("cmwq-")?.parse().ok());
        dirs.extend(users.map(|uid| (temporary(uid), uid)));
    }
    let mut seen = Vec::new();
    dirs.retain(|(dir, _)| {
        let new = !seen.contains(dir);
        seen.push(dir.clone());
        new
    });
    dirs
}

/// All sockets that may be spoken to, with the processes that they are named after. Folders that
/// are not to be trusted are left out.
pub(crate) fn all_sockets() -> Vec<(u32, PathBuf)> {
    let dirs = dirs_to_search();
    let safe = dirs
        .iter()
        .filter(|(dir, uid)| matches!(is_safe(dir, *uid), Some(Ok(()))));
    safe.flat_map(|(dir, _)| sockets_in(dir)).collect()
}
