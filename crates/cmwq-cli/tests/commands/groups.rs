//! The commands on a process whose workqueues share a limit: this one.

use crate::common::{refused, said, serve};
use cmwq::ConcurrencyGroup;

#[test]
fn list_dump_get_and_set_know_the_limit_that_queues_share() {
    let served = serve();
    let engine = &served.engine;
    let pid = std::process::id().to_string();
    let dump = || served.ok(&["dump", "-p", &pid]);
    let alone = engine.workqueue("alone").build().expect("a queue");
    assert!(!dump().contains("Concurrency group"), "{}", dump());

    let group = ConcurrencyGroup::new("disks\u{1b}[2J", 4);
    let member = |name: &str| {
        let queue = engine.workqueue(name).group(&group);
        queue.build().expect("a queue")
    };
    let (_fast, _slow) = (member("fast"), member("slow"));
    let list = served.ok(&["list"]);
    let words = |line: Option<&str>| -> Vec<String> {
        let line = line.expect("its line");
        line.split_whitespace().map(str::to_owned).collect()
    };
    let column = words(list.lines().next());
    let column = column.iter().position(|word| word == "GROUPS");
    let own = words(list.lines().find(|line| line.contains(&pid)));
    // The name of the process may be cut, but is one word.
    assert_eq!(own[column.expect("a column")], "1", "{list}");

    let text = dump();
    let (_, section) = text
        .split_once(
            "\nConcurrency group -> held/max_active\n====================================\n",
        )
        .unwrap_or_else(|| panic!("no section in {text}"));
    let mut lines = section.lines();
    let head = words(lines.next());
    assert_eq!(head, ["serial", "places", "waiting", "workqueues"]);
    let line = words(lines.next());
    // What a terminal would obey is not printed.
    assert_eq!(line[0], "disks?[2J");
    assert_eq!(line[2..], ["0/4", "0", "fast", "slow"], "{section}");

    let get = |queue: &str| served.command(&["get", "-p", &pid, queue, "group_max_active"]);
    assert_eq!(said(&mut get("fast")), "4\n");
    served.ok(&["set", "-p", &pid, "fast", "group_max_active", "7"]);
    assert_eq!(said(&mut get("slow")), "7\n");
    assert_eq!(group.max_active(), 7);
    assert!(refused(&mut get("alone")).contains("ENOENT"));
    drop(alone);
}
