//! Where the command listens that is not told where.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::served::terminate;
use crate::common::{Client, Deadline, Dir};

fn serving(runtime: Option<&Path>, name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"));
    command.args(["serve", "--memory", "1M", "--name", name]);
    command.env_remove("XDG_RUNTIME_DIR");
    command.envs(runtime.map(|dir| ("XDG_RUNTIME_DIR", dir)));
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    line
}

/// The line of a server that ends with this status: 1, the folder will not do; 2, it was asked wrongly.
fn complaint(status: i32, mut command: Command) -> String {
    let output = command.output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    assert_eq!(errors.lines().count(), 1, "{errors}");
    errors
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn by_itself_it_listens_where_only_its_user_may_connect() {
    let _deadline = Deadline::long("the default socket");
    let runtime = Dir::new();
    let folder = runtime.file("cmwq-nbd");
    let socket = folder.join("disk.sock");
    // Twice: the folder is there the second time.
    for _ in 0..2 {
        let mut child = serving(Some(&runtime.file("")), "disk").spawn().unwrap();
        let line = line(&mut child);
        let uri = format!("at nbd+unix:///?socket={}", socket.display());
        assert!(line.trim_end().ends_with(&uri), "{line}");
        assert_eq!((mode(&folder), mode(&socket)), (0o700, 0o600));
        assert_eq!(Client::connect(&socket, true).size, 1 << 20);
        terminate(&child);
        assert!(child.wait().unwrap().success());
        assert!(!socket.exists());
    }
}

#[test]
fn a_folder_that_others_may_change_is_refused() {
    let _deadline = Deadline::long("unsafe folders");
    let runtime = Dir::new();
    let own = runtime.file("");
    let folder = runtime.file("cmwq-nbd");
    fs::create_dir(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
    let said = complaint(1, serving(Some(&own), "disk"));
    assert!(
        said.contains("others may change it") && said.contains("--socket"),
        "{said}"
    );
    fs::remove_dir(&folder).unwrap();
    std::os::unix::fs::symlink("/tmp", &folder).unwrap();
    let said = complaint(1, serving(Some(&own), "disk"));
    assert!(said.contains("not a folder"), "{said}");
    let said = complaint(2, serving(Some(&own), "a/b"));
    assert!(
        said.contains("\"a/b\"") && said.contains("--socket"),
        "{said}"
    );
    if rustix::process::geteuid().is_root() {
        // That of another user, as sudo may leave it.
        let other = runtime.file("other");
        fs::create_dir(&other).unwrap();
        std::os::unix::fs::chown(&other, Some(65_534), None).unwrap();
        // So that nothing is made in /run: root listens there without a folder of its own.
        let said = complaint(2, serving(Some(&other), "a/b"));
        assert!(!other.join("cmwq-nbd").exists(), "{said}");
        return;
    }
    // Nothing else is tried for a user without one.
    let said = complaint(2, serving(None, "disk"));
    assert!(
        said.contains("XDG_RUNTIME_DIR") && said.contains("--socket"),
        "{said}"
    );
}
