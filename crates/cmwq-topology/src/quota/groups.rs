//! Finds the control groups of the process, as it sees them.

use crate::sysfs::bytes_of;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// Upper bound of the files read here: `mountinfo` of a host with thousands of containers.
const MAX_FILE_BYTES: u64 = 4 * 1024 * 1024;

/// Largest number of nested groups: longer paths cannot be opened.
const MAX_DEPTH: usize = 2048;

/// The process's group in one hierarchy.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Group {
    /// Where the hierarchy is mounted.
    mount: PathBuf,
    /// The group's folder: the mount, or one below it.
    pub(super) dir: PathBuf,
    /// The process's own group is not there: this is the mount instead.
    pub(super) hides_own: bool,
}

impl Group {
    pub(super) fn with_ancestors(&self) -> impl Iterator<Item = &Path> {
        let inside = |dir: &&Path| dir.starts_with(&self.mount);
        self.dir.ancestors().take_while(inside).take(MAX_DEPTH)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    Unified,
    Cpu,
}

impl Hierarchy {
    const ALL: [Hierarchy; 2] = [Hierarchy::Unified, Hierarchy::Cpu];

    /// The usual mount point.
    fn usual_mount(self) -> &'static str {
        match self {
            Hierarchy::Unified => "/sys/fs/cgroup",
            Hierarchy::Cpu => "/sys/fs/cgroup/cpu",
        }
    }

    /// The path in the hierarchy, from `/proc/thread-self/cgroup`.
    fn path_in(self, cgroup: &str) -> Option<PathBuf> {
        cgroup.lines().find_map(|line| {
            let (id, rest) = line.split_once(':')?;
            let (controllers, path) = rest.split_once(':')?;
            let own = match self {
                Hierarchy::Unified => id == "0" && controllers.is_empty(),
                Hierarchy::Cpu => controllers.split(',').any(|name| name == "cpu"),
            };
            own.then(|| path_from(path))
        })
    }

    fn is_mounted_by(self, mount: &Mount) -> bool {
        match self {
            Hierarchy::Unified => mount.fstype == "cgroup2",
            Hierarchy::Cpu => {
                mount.fstype == "cgroup" && mount.options.split(',').any(|name| name == "cpu")
            }
        }
    }
}

/// A line of `mountinfo`.
struct Mount {
    /// The group at the root of the mount.
    root: PathBuf,
    point: PathBuf,
    fstype: String,
    options: String,
}

impl Mount {
    /// The mount to expect where `mountinfo` cannot be read.
    fn usual(hierarchy: Hierarchy) -> Mount {
        Mount {
            root: "/".into(),
            point: hierarchy.usual_mount().into(),
            fstype: String::new(),
            options: String::new(),
        }
    }

    fn parse(line: &str) -> Option<Mount> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let (root, point) = (before.next()?, before.next()?);
        let mut after = after.split(' ');
        let fstype = after.next()?.to_owned();
        Some(Mount {
            root: path_from(&unescape(root)),
            point: path_from(&unescape(point)),
            fstype,
            options: after.nth(1).unwrap_or("").to_owned(),
        })
    }

    /// The folder of the group `path`. `None`: it is not below the root of the mount.
    fn dir_of(&self, path: &Path) -> Option<PathBuf> {
        let below = path.strip_prefix(&self.root).ok()?;
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        // Joined with an empty path, the result would end in a slash.
        let dir = self.point.join(below).components().collect();
        below.components().all(plain).then_some(dir)
    }
}

/// Decodes blanks, tabs, newlines and backslashes, which the kernel writes as three octal digits.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let digits = rest.get(1..4).filter(|_| first == '\\');
        let code = digits.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        plain.push(code.map_or(first, char::from));
        rest = &rest[code.map_or(first.len_utf8(), |_| 4)..];
    }
    plain
}

/// The file that names the process's groups.
pub(super) fn cgroup_file(root: &Path) -> Option<String> {
    // A new thread is in its creator's group, so workers are in that of the engine's threads.
    let of_thread = read(&root.join("proc/thread-self/cgroup"));
    of_thread.or_else(|| read(&root.join("proc/self/cgroup")))
}

/// The process's group in each hierarchy that exists.
pub(super) fn own_groups(root: &Path, cgroup: Option<&str>) -> Vec<Group> {
    let mountinfo = read(&root.join("proc/self/mountinfo")).unwrap_or_default();
    let mounts: Vec<Mount> = mountinfo.lines().filter_map(Mount::parse).collect();
    let group = |hierarchy: Hierarchy| {
        // Without `/proc`, assume the root of the container.
        let path = match cgroup {
            Some(text) => hierarchy.path_in(text)?,
            None => PathBuf::from("/"),
        };
        let own = mounts.iter().filter(|mount| hierarchy.is_mounted_by(mount));
        let usual = mounts.is_empty().then(|| Mount::usual(hierarchy));
        let own: Vec<&Mount> = own.chain(&usual).collect();
        let seen = |dir: &Path| below(root, dir).is_dir();
        let found = own.iter().filter_map(|mount| {
            let dir = mount.dir_of(&path).filter(|dir| seen(dir))?;
            Some(Group {
                mount: mount.point.clone(),
                dir,
                hides_own: false,
            })
        });
        // The same group may be seen through several mounts: the one with the most groups above it counts.
        let widest = found.max_by_key(|group| group.with_ancestors().count());
        // The path is outside the mounts: the root of the mount is the nearest visible group.
        let nearest = || {
            let mount = own.first().map(|mount| mount.point.clone())?;
            seen(&mount).then(|| Group {
                dir: mount.clone(),
                mount,
                hides_own: true,
            })
        };
        widest.or_else(nearest)
    };
    Hierarchy::ALL.into_iter().filter_map(group).collect()
}

pub(super) fn below(root: &Path, absolute: &Path) -> PathBuf {
    root.join(absolute.strip_prefix("/").unwrap_or(absolute))
}

/// The text of a file, a character for each byte: the kernel writes the names of groups and mount
/// points as they are, which need not be UTF-8. `None`: it cannot be read.
pub(super) fn read(path: &Path) -> Option<String> {
    let bytes = bytes_of(path, MAX_FILE_BYTES).ok()?;
    Some(bytes.into_iter().map(char::from).collect())
}

/// The path that is a part of such a text.
fn path_from(text: &str) -> PathBuf {
    let bytes = text.chars().map(|character| character as u8).collect();
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octal_escapes_of_mount_points_are_undone_and_others_kept() {
        assert_eq!(unescape(r"/a\040b\134c"), r"/a b\c");
        assert_eq!(unescape(r"/a\04"), r"/a\04");
        assert_eq!(unescape(r"/a\999"), r"/a\999");
    }
}
