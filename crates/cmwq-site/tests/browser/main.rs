//! docs/site/index.html in a browser: wide and as narrow as a phone, light and dark.
//!
//! Sabotage tried, each fails a test here: a script that throws or logs, an element of 600 pixels,
//! a picture from the network, colours that stay light in the dark scheme, grey text on grey, radio
//! buttons that choose nothing.
//!
//! CMWQ_BROWSER names the browser; CMWQ_SCREENSHOTS a folder where pictures of the page go.

mod devtools;

use devtools::Browser;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// The page, opened; or none, where there is no browser.
fn open(width: u32, scheme: &str) -> Option<Browser> {
    let program = match devtools::program() {
        Ok(program) => program,
        Err(why) => {
            println!("skipped, because {why}");
            return None;
        }
    };
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/site/index.html");
    let page = page.canonicalize().expect("the page");
    let mut browser = Browser::start(&program);
    browser.open(&format!("file://{}", page.display()), width, scheme);
    Some(browser)
}

/// Elements with text of their own whose colour differs too little from what is behind them (WCAG's
/// contrast, 4.5).
const FAINT: &str = r#"(() => {
  const parts = (colour) => colour.match(/[\d.]+/g).map(Number);
  const light = (colour) => {
    const [r, g, b] = parts(colour).map((c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const behind = (element) => {
    for (; element; element = element.parentElement) {
      const colour = getComputedStyle(element).backgroundColor;
      if ((parts(colour)[3] ?? 1) > 0) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const own = (element) => [...element.childNodes].some((node) => node.nodeType == 3 && node.data.trim());
  return [...document.querySelectorAll("body *")].filter(own).filter((element) => {
    const [a, b] = [light(getComputedStyle(element).color), light(behind(element))];
    return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05) < 4.5;
  }).map((element) => element.outerHTML.slice(0, 80));
})()"#;

/// Elements that reach beyond the right edge and are in no part that scrolls by itself.
const BEYOND: &str = r#"[...document.querySelectorAll("body *")].filter((element) =>
  !element.closest(".scroll, pre, .bars .bar") && element.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5
).map((element) => element.outerHTML.slice(0, 80))"#;

#[test]
fn nothing_complains_and_nothing_comes_from_outside() {
    let Some(mut browser) = open(1280, "light") else {
        return;
    };
    assert_eq!(
        browser.evaluate("document.title"),
        "cmwq: figures beside other thread pools"
    );
    // What was said while the page loaded has come before the answer above.
    let (mut requests, mut complaints) = (0, Vec::new());
    for event in &browser.events {
        let parameters = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled" | "Runtime.exceptionThrown" | "Log.entryAdded" => {
                complaints.push(parameters)
            }
            "Network.requestWillBeSent" => {
                requests += 1;
                let url = parameters["request"]["url"].as_str().unwrap_or_default();
                assert!(url.ends_with("docs/site/index.html"), "{url}");
            }
            _ => {}
        }
    }
    assert_eq!(complaints, Vec::<&Value>::new());
    assert_eq!(requests, 1);
}

#[test]
fn a_phone_needs_no_scrolling_to_the_side() {
    for width in [360, 320, 820] {
        let Some(mut browser) = open(width, "light") else {
            return;
        };
        let overflow = browser.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth",
        );
        assert_eq!(overflow, 0, "at {width}: {}", browser.evaluate(BEYOND));
        assert_eq!(browser.evaluate("innerWidth"), width);
        assert_eq!(
            browser.evaluate(BEYOND),
            serde_json::json!([]),
            "at {width}"
        );
        keep(&mut browser, &format!("{width}-light"));
    }
}

#[test]
fn both_schemes_can_be_read() {
    let mut backgrounds = Vec::new();
    for scheme in ["light", "dark"] {
        let Some(mut browser) = open(1280, scheme) else {
            return;
        };
        assert_eq!(browser.evaluate(FAINT), serde_json::json!([]), "{scheme}");
        backgrounds.push(browser.evaluate("getComputedStyle(document.body).backgroundColor"));
        keep(&mut browser, &format!("1280-{scheme}"));
    }
    assert_ne!(backgrounds[0], backgrounds[1]);
    if let Some(mut browser) = open(360, "dark") {
        keep(&mut browser, "360-dark");
    }
}

#[test]
fn a_number_of_issuers_shows_its_charts() {
    let Some(mut browser) = open(1280, "light") else {
        return;
    };
    let shown = r#"[...document.querySelectorAll(".loop")].map((loop) =>
        [...loop.querySelectorAll(".option")].filter((option) => option.offsetHeight > 0).map((option) => option.className).join())"#;
    // Two issuers, and one where there is nothing to choose.
    let options = ["option o2"; 4]
        .iter()
        .chain(&["option o1"])
        .collect::<Vec<_>>();
    assert_eq!(browser.evaluate(shown), serde_json::json!(options));
    browser.evaluate(
        r#"for (const four of document.querySelectorAll("input[value='4']")) four.click()"#,
    );
    let four = [
        "option o3",
        "option o3",
        "option o3",
        "option o2",
        "option o1",
    ];
    assert_eq!(browser.evaluate(shown), serde_json::json!(four));
    // Every chart has a bar of cmwq that can be seen, whichever its value.
    let bars =
        r#"[...document.querySelectorAll(".bars")].every((list) => list.querySelector(".ours i"))"#;
    assert_eq!(browser.evaluate(bars), true);
}

/// Writes a picture of the page, if that was asked for.
fn keep(browser: &mut Browser, name: &str) {
    let Ok(folder) = std::env::var("CMWQ_SCREENSHOTS") else {
        return;
    };
    let path = Path::new(&folder).join(format!("{name}.png"));
    let mut decode = Command::new("base64")
        .arg("-d")
        .stdin(Stdio::piped())
        .stdout(std::fs::File::create(path).expect("a folder for pictures"))
        .spawn()
        .expect("base64");
    let mut to = decode.stdin.take().expect("a pipe");
    to.write_all(browser.picture().as_bytes())
        .expect("base64 reads");
    drop(to);
    assert!(decode.wait().expect("base64").success());
}
