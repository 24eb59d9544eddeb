//! `cmwq top` on a terminal: however it ends, the terminal is as it was.

use crate::common::serve;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Termios, Winsize, tcgetattr, tcsetattr, tcsetwinsize};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// A test that would hang ends after this.
const PATIENCE: Timespec = Timespec {
    tv_sec: 60,
    tv_nsec: 0,
};
/// To the other screen, and back.
const ENTER: &[u8] = b"\x1b[?1049h";
const LEAVE: &[u8] = b"\x1b[?1049l";

/// A terminal of 80 columns and 24 lines, on which `cmwq top` runs.
struct OnTerminal {
    ours: File,
    its: File,
    before: Termios,
    shown: Vec<u8>,
    child: Child,
}

impl OnTerminal {
    fn start(dir: &Path) -> OnTerminal {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&ours).expect("granted");
        unlockpt(&ours).expect("unlocked");
        let name = ptsname(&ours, Vec::new()).expect("its name");
        let its = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().expect("text"))
            .expect("its other side");
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&its, size).expect("its size");
        let before = tcgetattr(&its).expect("its settings");
        let side = || Stdio::from(its.try_clone().expect("one more descriptor"));
        let child = Command::new(env!("CARGO_BIN_EXE_cmwq"))
            .args(["top", "-p", &std::process::id().to_string()])
            .env("XDG_RUNTIME_DIR", dir)
            .env("TERM", "xterm")
            // What stops its group is not to stop the test.
            .process_group(0)
            .stdin(side())
            .stdout(side())
            .stderr(side())
            .spawn()
            .expect("it starts");
        let mut top = OnTerminal {
            ours: File::from(ours),
            its,
            before,
            shown: Vec::new(),
            child,
        };
        top.is_drawn();
        top
    }

    /// Reads what is shown until `what` was.
    fn read_until(&mut self, what: &[u8]) {
        let mut piece = [0; 4096];
        while !self.shown.windows(what.len()).any(|shown| shown == what) {
            let mut readable = [PollFd::new(&self.ours, PollFlags::IN)];
            let ready = poll(&mut readable, Some(&PATIENCE));
            assert_ne!(ready, Ok(0), "{}", String::from_utf8_lossy(&self.shown));
            match self.ours.read(&mut piece) {
                Ok(0) => panic!("the terminal is gone"),
                Ok(read) => self.shown.extend_from_slice(&piece[..read]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&self.shown)),
            }
        }
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).expect("it lives");
    }

    fn ends_restored(mut self) -> ExitStatus {
        self.read_until(LEAVE);
        // Before the terminal's settings are read.
        let status = self.child.wait().expect("it ends");
        self.is_restored();
        status
    }

    /// Until it is stopped, and once more when it is continued.
    fn stops_and_continues(&mut self) {
        self.read_until(LEAVE);
        let pid = Pid::from_child(&self.child);
        let (_, status) = waitpid(Some(pid), WaitOptions::UNTRACED)
            .expect("it lives")
            .expect("it stops");
        assert!(status.stopped(), "{status:?}");
        self.is_restored();
        self.signal(Signal::CONT);
        self.is_drawn();
    }

    fn is_drawn(&mut self) {
        self.shown.clear();
        self.read_until(ENTER);
        self.read_until(b"queues");
        let now = tcgetattr(&self.its).expect("its settings");
        assert_ne!(now.local_modes, self.before.local_modes);
    }

    fn is_restored(&self) {
        let now = tcgetattr(&self.its).expect("its settings");
        assert_eq!(now.local_modes, self.before.local_modes);
        assert_eq!(now.input_modes, self.before.input_modes);
        assert_eq!(now.output_modes, self.before.output_modes);
    }
}

/// As when a window is closed, for a program that gets no signal by that: one that was started with `setsid`.
#[test]
fn it_ends_when_its_terminal_has_hung_up() {
    let served = serve();
    let OnTerminal {
        ours, its, child, ..
    } = OnTerminal::start(served.dir.path());
    let mut child = child;
    drop((ours, its));
    let ended = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).expect("a descriptor");
    let ready = poll(&mut [PollFd::new(&ended, PollFlags::IN)], Some(&PATIENCE));
    let goes_on = ready == Ok(0);
    if goes_on {
        child.kill().expect("it lives");
    }
    let status = child.wait().expect("it is ours");
    assert!(!goes_on, "it goes on without its terminal");
    assert_eq!(status.code(), Some(1), "{status}");
}

#[test]
fn the_terminal_is_restored_however_it_ends() {
    let served = serve();
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let top = OnTerminal::start(served.dir.path());
        top.signal(signal);
        top.ends_restored();
    }
    let mut top = OnTerminal::start(served.dir.path());
    top.ours.write_all(b"q").expect("a key");
    top.ends_restored();

    let top = OnTerminal::start(served.dir.path());
    top.signal(Signal::QUIT);
    let status = top.ends_restored();
    assert_eq!(status.signal(), Some(Signal::QUIT.as_raw()));

    // The inspected process is gone.
    let top = OnTerminal::start(served.dir.path());
    drop(served.control);
    top.ends_restored();
}

#[test]
fn the_terminal_is_given_back_while_it_is_stopped() {
    let served = serve();
    let mut top = OnTerminal::start(served.dir.path());
    top.signal(Signal::TSTP);
    top.stops_and_continues();
    top.ours.write_all(b"\x1a").expect("Ctrl-Z");
    top.stops_and_continues();

    // Stopped without being asked, and the terminal's settings changed meanwhile, as shells do.
    top.signal(Signal::STOP);
    let pid = Pid::from_child(&top.child);
    let stopped = waitpid(Some(pid), WaitOptions::UNTRACED);
    assert!(stopped.expect("it lives").expect("it stops").1.stopped());
    tcsetattr(&top.its, OptionalActions::Now, &top.before).expect("set");
    top.signal(Signal::CONT);
    top.is_drawn();
    top.shown.clear();
    top.ours.write_all(b"q").expect("a key");
    top.ends_restored();
}

/// Under a pseudo-terminal that `script` makes: what top writes, and that it leaves the terminal as it was.
#[test]
fn top_restores_the_terminal_when_it_is_told_to_end() {
    let served = serve();
    let pid = std::process::id().to_string();
    let inner = format!(
        "stty rows 24 cols 80; {} top -p {pid}; stty -a",
        env!("CARGO_BIN_EXE_cmwq")
    );
    let child = Command::new("script")
        .args(["-qec", &inner, "/dev/null"])
        .env("XDG_RUNTIME_DIR", served.dir.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped, because script (of util-linux) is not there");
        return;
    };
    let mut keys = child.stdin.take().expect("piped");
    let mut screen = child.stdout.take().expect("piped");
    let mut seen = Vec::new();
    let mut block = [0; 4096];
    // Until it is drawn: then a key ends it.
    while !String::from_utf8_lossy(&seen).contains("quit") {
        let count = screen.read(&mut block).expect("a screen");
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&block[..count]);
    }
    keys.write_all(b"q").expect("a key");
    screen.read_to_end(&mut seen).expect("the end");
    assert!(child.wait().expect("it ends").success());
    let seen = String::from_utf8_lossy(&seen);
    let at = |text: &str| {
        seen.find(text)
            .unwrap_or_else(|| panic!("no {text:?} in {seen:?}"))
    };
    assert!(
        at("\u{1b}[?1049h") < at("\u{1b}[?1049l"),
        "the other screen, and back"
    );
    let after = &seen[at("\u{1b}[?1049l")..];
    assert!(
        after.contains(" icanon") && after.contains(" echo "),
        "{after}"
    );
    assert!(after.contains("\u{1b}[?25h"), "the cursor is there");
}
