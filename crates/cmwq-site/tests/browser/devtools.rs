//! A headless Chromium, spoken to over the pipe that `--remote-debugging-pipe` opens: messages of
//! JSON that a zero byte ends.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// For every answer and event that is waited for.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) struct Browser {
    child: Child,
    to: ChildStdin,
    from: Receiver<Value>,
    /// Removed with it.
    _profile: TempDir,
    last_id: u64,
    session: Option<String>,
    /// What came that was no answer.
    pub(crate) events: Vec<Value>,
}

/// The browser's program, or why there is none.
pub(crate) fn program() -> Result<String, String> {
    let named = std::env::var("CMWQ_BROWSER").ok();
    let usual = [
        "chromium-headless-shell",
        "chromium",
        "chromium-browser",
        "google-chrome",
    ];
    let candidates = named.iter().map(String::as_str).chain(usual);
    let runs = |program: &&str| {
        let version = Command::new(program).arg("--version").output();
        version.is_ok_and(|output| output.status.success())
    };
    let found = candidates.into_iter().find(runs);
    found.map(str::to_owned).ok_or_else(|| {
        "there is no Chromium (Debian: apt-get install chromium-headless-shell; or CMWQ_BROWSER)".to_owned()
    })
}

impl Browser {
    /// Starts the browser with one empty page.
    pub(crate) fn start(program: &str) -> Self {
        let profile = tempfile::tempdir().expect("a folder for its files");
        // The browser reads descriptor 3 and writes to 4.
        let mut child = Command::new("sh")
            .args(["-c", r#"exec 3<&0 4>&1 1>&2 && exec "$@""#, "sh", program])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
            ])
            .args(["--no-first-run", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh");
        let to = child.stdin.take().expect("a pipe");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let (sender, from) = mpsc::channel();
        thread::spawn(move || {
            let mut message = Vec::new();
            while output
                .read_until(0, &mut message)
                .is_ok_and(|length| length > 0)
            {
                message.pop();
                let value = serde_json::from_slice(&message).expect("JSON from the browser");
                if sender.send(value).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let mut browser = Self {
            child,
            to,
            from,
            _profile: profile,
            last_id: 0,
            session: None,
            events: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// The answer to a call.
    pub(crate) fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.last_id += 1;
        let id = self.last_id;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let text = format!("{message}\0");
        self.to
            .write_all(text.as_bytes())
            .expect("the browser listens");
        let answer = self.wait_for(method, |value| value["id"] == id);
        assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        answer["result"].clone()
    }

    /// The first event of this name from now on.
    pub(crate) fn event(&mut self, method: &str) {
        self.wait_for(method, |value| value["method"] == method);
    }

    fn wait_for(&mut self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + LIMIT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let value = self.from.recv_timeout(left);
            let value = value.unwrap_or_else(|error| panic!("{what}: {error}"));
            if is_it(&value) {
                return value;
            }
            self.events.push(value);
        }
    }

    /// What the expression is on the page.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", parameters);
        assert!(answer["exceptionDetails"].is_null(), "{answer}");
        answer["result"]["value"].clone()
    }

    /// Opens the page on a screen of this width, in the light or the dark scheme.
    pub(crate) fn open(&mut self, url: &str, width: u32, scheme: &str) {
        let screen =
            json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 600});
        self.call("Emulation.setDeviceMetricsOverride", screen);
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.call("Emulation.setEmulatedMedia", features);
        self.call("Page.navigate", json!({"url": url}));
        self.event("Page.loadEventFired");
    }

    /// The whole page, as a picture in base64.
    pub(crate) fn picture(&mut self) -> String {
        let parameters = json!({"format": "png", "captureBeyondViewport": true});
        let answer = self.call("Page.captureScreenshot", parameters);
        answer["data"].as_str().expect("a picture").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
