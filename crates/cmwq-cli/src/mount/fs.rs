//! The tree to FUSE: inode numbers, attributes, errors.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use cmwq_control::ControlError;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenAccMode, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::tree::{Age, Node, Tree};

/// The system remembers nothing: what is there may change at any moment.
const TTL: Duration = Duration::ZERO;
/// As the kernel's own files claim to be.
const FILE_BYTES: u64 = 4096;

/// Inode numbers. They are kept as long as the file system is mounted: a few bytes for each
/// workqueue and attribute that was ever looked up.
#[derive(Default)]
struct Inodes {
    nodes: Vec<Node>,
    numbers: HashMap<Node, u64>,
}

impl Inodes {
    fn of(&mut self, node: &Node) -> u64 {
        if *node == Node::Root {
            return INodeNo::ROOT.0;
        }
        if let Some(number) = self.numbers.get(node) {
            return *number;
        }
        self.nodes.push(node.clone());
        // After the root's.
        let number = self.nodes.len() as u64 + INodeNo::ROOT.0;
        self.numbers.insert(node.clone(), number);
        number
    }

    fn node(&self, number: u64) -> Option<Node> {
        let at = number.checked_sub(INodeNo::ROOT.0)?;
        match at.checked_sub(1) {
            None => Some(Node::Root),
            Some(at) => self.nodes.get(usize::try_from(at).ok()?).cloned(),
        }
    }
}

pub(super) struct ControlFs {
    tree: Tree,
    inodes: Mutex<Inodes>,
    /// What was read last of each open file, from its beginning: one that is read in pieces is one answer.
    contents: Mutex<HashMap<FileHandle, String>>,
    next_handle: AtomicU64,
    uid: u32,
    gid: u32,
    mounted: SystemTime,
}

fn errno(error: &ControlError) -> Errno {
    Errno::from_i32(error.code())
}

impl ControlFs {
    pub(super) fn new() -> Self {
        ControlFs {
            tree: Tree::default(),
            inodes: Mutex::default(),
            contents: Mutex::default(),
            next_handle: AtomicU64::new(0),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            mounted: SystemTime::now(),
        }
    }

    fn number_of(&self, node: &Node) -> u64 {
        let mut inodes = self.inodes.lock().unwrap_or_else(PoisonError::into_inner);
        inodes.of(node)
    }

    fn node(&self, number: INodeNo) -> Result<Node, Errno> {
        let inodes = self.inodes.lock().unwrap_or_else(PoisonError::into_inner);
        inodes.node(number.0).ok_or(Errno::ENOENT)
    }

    fn attr(&self, node: &Node) -> Result<FileAttr, Errno> {
        let writable = self.tree.is_writable(node).map_err(|error| errno(&error))?;
        let folder = node.is_folder();
        Ok(FileAttr {
            ino: INodeNo(self.number_of(node)),
            size: if folder { 0 } else { FILE_BYTES },
            blocks: 0,
            atime: self.mounted,
            mtime: self.mounted,
            ctime: self.mounted,
            crtime: self.mounted,
            kind: if folder {
                FileType::Directory
            } else {
                FileType::RegularFile
            },
            perm: match (folder, writable) {
                (true, _) => 0o755,
                (false, true) => 0o644,
                (false, false) => 0o444,
            },
            nlink: 1,
            uid: self.uid,
            gid: self.gid,
            rdev: 0,
            blksize: FILE_BYTES as u32,
            flags: 0,
        })
    }

    fn look_up(&self, parent: INodeNo, name: &OsStr) -> Result<FileAttr, Errno> {
        let folder = self.node(parent)?;
        let name = name.to_str().ok_or(Errno::ENOENT)?;
        let node = self
            .tree
            .lookup(&folder, name)
            .map_err(|error| errno(&error))?;
        self.attr(&node)
    }

    fn opened(&self, number: INodeNo, flags: OpenFlags) -> Result<(), Errno> {
        let node = self.node(number)?;
        let writable = self
            .tree
            .is_writable(&node)
            .map_err(|error| errno(&error))?;
        // As the kernel's files do, for root too.
        if flags.acc_mode() != OpenAccMode::O_RDONLY && !writable {
            return Err(Errno::EACCES);
        }
        Ok(())
    }

    fn contents(&self, number: INodeNo, handle: FileHandle, offset: u64) -> Result<Vec<u8>, Errno> {
        let known = || self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let read_before = known().get(&handle).filter(|_| offset > 0).cloned();
        let text = match read_before {
            Some(text) => text,
            None => {
                let node = self.node(number)?;
                let text = self.tree.read(&node).map_err(|error| errno(&error))?;
                known().insert(handle, text.clone());
                text
            }
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        // A piece may begin inside a character.
        Ok(text.as_bytes().get(from..).unwrap_or_default().to_owned())
    }

    /// One write is one value, wherever in the file: `>>` does what `>` does.
    fn store(&self, number: INodeNo, data: &[u8]) -> Result<(), Errno> {
        let node = self.node(number)?;
        let text = std::str::from_utf8(data).map_err(|_| Errno::EINVAL)?;
        self.tree.write(&node, text).map_err(|error| errno(&error))
    }

    fn list(&self, number: INodeNo, age: Age) -> Result<Vec<(u64, FileType, String)>, Errno> {
        let folder = self.node(number)?;
        let entries = self
            .tree
            .entries(&folder, age)
            .map_err(|error| errno(&error))?;
        let dots = [".", ".."].map(|name| (number.0, FileType::Directory, name.to_owned()));
        let entries = entries.into_iter().map(|entry| {
            let kind = if entry.node.is_folder() {
                FileType::Directory
            } else {
                FileType::RegularFile
            };
            (self.number_of(&entry.node), kind, entry.name)
        });
        Ok(dots.into_iter().chain(entries).collect())
    }
}

impl Filesystem for ControlFs {
    fn lookup(&self, _req: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.look_up(parent, name) {
            Ok(attr) => reply.entry(&TTL, &attr, Generation(0)),
            Err(error) => reply.error(error),
        }
    }

    fn getattr(&self, _req: &Request, ino: INodeNo, _fh: Option<FileHandle>, reply: ReplyAttr) {
        match self.node(ino).and_then(|node| self.attr(&node)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    /// A shell's `>` cuts a file before it writes it: there is nothing to cut. Owners and modes
    /// stay as they are.
    fn setattr(
        &self,
        _req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        _size: Option<u64>,
        _atime: Option<TimeOrNow>,
        _mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _fh: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        if mode.is_some() || uid.is_some() || gid.is_some() {
            reply.error(Errno::EPERM);
            return;
        }
        match self.node(ino).and_then(|node| self.attr(&node)) {
            Ok(attr) => reply.attr(&TTL, &attr),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _req: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        match self.opened(ino, flags) {
            // Read anew each time, and one write is one write.
            Ok(()) => {
                let handle = FileHandle(self.next_handle.fetch_add(1, Ordering::Relaxed));
                reply.opened(handle, FopenFlags::FOPEN_DIRECT_IO);
            }
            Err(error) => reply.error(error),
        }
    }

    /// A shell's `>` makes a file that is not there, where a name is mistyped: refused as in the
    /// kernel's folders.
    fn create(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EACCES);
    }

    // What is there comes and goes with processes and workqueues. Whoever would change it is told
    // what the kernel's folders answer.

    /// sysfs tells a file, which is opened to be made, and a pipe or device apart.
    fn mknod(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        mode: u32,
        _umask: u32,
        _rdev: u32,
        reply: ReplyEntry,
    ) {
        let is_file = rustix::fs::FileType::from_raw_mode(mode).is_file();
        reply.error(if is_file { Errno::EACCES } else { Errno::EPERM });
    }

    fn mkdir(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn unlink(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rmdir(&self, _req: &Request, _parent: INodeNo, _name: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EPERM);
    }

    fn rename(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _newparent: INodeNo,
        _newname: &OsStr,
        _flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EPERM);
    }

    fn symlink(
        &self,
        _req: &Request,
        _parent: INodeNo,
        _name: &OsStr,
        _target: &Path,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn link(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _parent: INodeNo,
        _name: &OsStr,
        reply: ReplyEntry,
    ) {
        reply.error(Errno::EPERM);
    }

    fn read(
        &self,
        _req: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.contents(ino, fh, offset) {
            Ok(text) => reply.data(&text[..text.len().min(size as usize)]),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        _offset: u64,
        data: &[u8],
        _write_flags: WriteFlags,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.store(ino, data) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn flush(
        &self,
        _req: &Request,
        _ino: INodeNo,
        _fh: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        reply.ok();
    }

    fn release(
        &self,
        _req: &Request,
        _ino: INodeNo,
        fh: FileHandle,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        contents.remove(&fh);
        drop(contents);
        reply.ok();
    }

    fn readdir(
        &self,
        _req: &Request,
        ino: INodeNo,
        _fh: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let age = match offset {
            0 => Age::New,
            _ => Age::Remembered,
        };
        let entries = match self.list(ino, age) {
            Ok(entries) => entries,
            Err(error) => return reply.error(error),
        };
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (number, kind, name)) in entries.into_iter().enumerate().skip(from) {
            if reply.add(INodeNo(number), at as u64 + 1, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}
