use super::*;
use cmwq_control::protocol::{Counter, Engine, Queue, Run, State, Times, Worker};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::top::model::Action;
use crate::top::svg;

/// A process with two queues after `seconds` of 1,000 and of 10 items a second.
fn state(seconds: u64) -> State {
    let queue = |serial: u64, key: &str, items_per_s: u64, scope: &str| Queue {
        serial,
        name: key.to_owned(),
        key: key.to_owned(),
        kind: "unbound".to_owned(),
        flags: "unbound".to_owned(),
        attributes: [
            ("affinity_scope".to_owned(), scope.to_owned()),
            ("affinity_strict".to_owned(), "0".to_owned()),
            ("max_active".to_owned(), "1500".to_owned()),
        ]
        .into(),
        min_active: 8,
        max_active: 1500,
        cpu_pool: vec![Some(1), Some(1)],
        default_pool: Some(1),
        nodes: vec![(None, 0, 1500)],
        pwqs: vec![(1, 3, 40)],
        started: items_per_s * seconds,
        completed: (items_per_s * seconds).saturating_sub(1),
        cpu_ns: 500_000_000 * seconds,
        enqueue_timed: 5,
        enqueue_p50_ns: Some(100),
        enqueue_p99_ns: Some(12_345),
        times: Times {
            wait_p50_ns: Some(1_230_000),
            wait_p99_ns: Some(2_340_000),
            longest_waiting_ns: Some(450_000_000),
            run_p50_ns: Some(34_000),
            run_p99_ns: Some(56_000),
            longest_running_ns: Some(67_000_000_000),
            ..Times::default()
        },
        ..Queue::default()
    };
    let pool = Pool {
        id: 1,
        kind: "unbound".to_owned(),
        flags: 4,
        users: 2,
        nice: 0,
        effective_nice: Some(0),
        pod_cpus: "0-1".to_owned(),
        cpus: "0-1".to_owned(),
        strict: false,
        node: Some(0),
        binding: "0-1".to_owned(),
        target: 2,
        running: 2,
        waiting: 5,
        workers: vec![Worker {
            id: 0,
            tid: 77,
            doing: "running".to_owned(),
        }],
        runs: vec![Run {
            tid: 77,
            rescuer: false,
            queue: "fast".to_owned(),
            function: "a_function".to_owned(),
            description: "fast".to_owned(),
            for_ns: 12_000_000 * seconds,
            behind_it: Vec::new(),
        }],
        ..Pool::default()
    };
    State {
        pid: 4321,
        name: "server".to_owned(),
        at_ns: 1_000_000_000 * seconds,
        engines: vec![Engine {
            serial: 1,
            possible: "0-1".to_owned(),
            cpus: "0-1".to_owned(),
            nodes: vec![(0, "0-1".to_owned())],
            parameters: Default::default(),
            scopes: Vec::new(),
            pools: vec![pool],
            queues: vec![
                queue(5, "slow", 10, "numa"),
                queue(6, "fast", 1000, "default (cache_shard)"),
            ],
            totals: Default::default(),
        }],
        groups: Vec::new(),
        counters: Vec::new(),
    }
}

fn model() -> Model {
    let mut model = Model::new();
    for seconds in 1..4 {
        model.look(state(seconds));
    }
    model
}

fn screen(model: &Model, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("no device");
    terminal
        .draw(|frame| draw(frame, model))
        .expect("no device");
    terminal.backend().to_string()
}

fn press(model: &mut Model, code: KeyCode) -> Action {
    model.key(KeyEvent::new(code, KeyModifiers::NONE))
}

fn line_with(screen: &str, text: &str) -> String {
    let line = screen.lines().find(|line| line.contains(text));
    line.unwrap_or_else(|| panic!("no {text:?} in\n{screen}"))
        .to_owned()
}

#[test]
fn everything_is_there_at_80_by_24() {
    let screen = screen(&model(), 80, 24);
    assert_eq!(screen.lines().count(), 24);
    let head = line_with(&screen, "server 4321");
    assert!(
        head.contains("1010 items/s") && head.contains("2 queues"),
        "{head}"
    );
    let pod = line_with(&screen, "0-1 ██");
    assert!(pod.contains("2/2 w1 q5"), "{pod}");
    let fast = line_with(&screen, "=cache_shard");
    for part in ["fast", "1000", "42", "50", "2340us", "450ms", "56us"] {
        assert!(fast.contains(part), "{part} in {fast}");
    }
    let wide = line_with(&self::screen(&model(), 150, 24), "=cache_shard");
    for part in ["unbound", "1230us", "34us", "67s"] {
        assert!(wide.contains(part), "{part} in {wide}");
    }
    line_with(&screen, "36ms fast a_function");
    assert!(line_with(&screen, "select").contains("q quit"));
}

#[test]
fn an_item_is_shown_by_its_handler_and_place() {
    let mut state = state(4);
    let run = &mut state.engines[0].pools[0].runs[0];
    run.function = "svc::handle::{{closure}}::{{closure}} (src/main.rs:42)".to_owned();
    let mut model = Model::new();
    model.look(state);
    let line = line_with(&screen(&model, 80, 24), "48ms fast");
    assert!(line.contains("svc::handle (main.rs:42)"), "{line}");
    for other in ["{{closure}}", "libc.so.6+0x12"] {
        assert_eq!(without_closures(other), other);
    }
}

#[test]
fn what_is_too_long_loses_its_folders_and_modules_before_its_name() {
    let function = "server::web::handle (crates/server/src/web.rs:42)";
    for (columns, shown) in [
        (49, function),
        (48, "server::web::handle (web.rs:42)"),
        (30, "handle (web.rs:42)"),
        (18, "handle (web.rs:42)"),
        (17, "handle:42"),
        (8, "handle"),
        (6, "handle"),
        (5, "…ndle"),
        (1, "…"),
        (0, ""),
    ] {
        assert_eq!(shortened(function, columns), shown);
    }
    let typed = "worker::<a::B>::run (src/worker.rs:7)";
    assert_eq!(shortened(typed, 33), "worker::<a::B>::run (worker.rs:7)");
    assert_eq!(shortened(typed, 21), "worker::<a::B>::run:7");
    assert_eq!(shortened(typed, 5), "…:run");
    assert_eq!(shortened("server::web::handle", 10), "handle");
    assert_eq!(shortened("a_symbol_of_c", 5), "…of_c");
    let unplaced = "server::get::{{closure}}";
    assert_eq!(shortened(unplaced, 20), "get::{{closure}}");
    let merged = "up::{{closure}} or down::{{closure}}";
    assert_eq!(shortened(merged, 20), "…r down::{{closure}}");
}

#[test]
fn a_long_name_keeps_its_last_segment_at_80_columns() {
    let mut state = state(4);
    let run = &mut state.engines[0].pools[0].runs[0];
    run.queue = "orders".to_owned();
    run.function = "handle_undeclared::{{closure}} (src/main.rs:13)".to_owned();
    let mut model = Model::new();
    model.look(state);
    let screen = screen(&model, 80, 24);
    let line = line_with(&screen, "orders");
    assert!(line.contains("48ms orders handle_undeclared:13"), "{line}");
    // A sample that finds an item running does not see its end.
    assert!(line.contains("≥48ms orders"), "{line}");
}

#[test]
fn a_process_without_a_workqueue_is_no_empty_screen() {
    let mut nothing = state(4);
    nothing.engines.clear();
    let mut model = Model::new();
    model.look(nothing);
    let shown = screen(&model, 80, 24);
    let head = line_with(&shown, "server 4321");
    assert!(
        head.contains("· no workqueue yet") && !head.contains("items/s"),
        "{head}"
    );
    line_with(&shown, "server (4321) has no workqueue yet.");
    let mut gone = state(5);
    gone.engines[0].queues.clear();
    model.look(gone);
    line_with(
        &screen(&model, 80, 24),
        "server (4321) has no workqueue now.",
    );
    assert_eq!(short([0.0; 0].iter().sum()), "0", "the sum of none");
}

#[test]
fn a_full_workqueue_shows_its_bound_and_what_it_refuses() {
    let bounded = |seconds: u64, waiting: usize| {
        let mut state = state(seconds);
        let fast = &mut state.engines[0].queues[1];
        (fast.room, fast.refused) = (Some((waiting, 100)), 7 * seconds);
        state
    };
    for width in [80, 200] {
        let mut model = Model::new();
        (1..4).for_each(|seconds| model.look(bounded(seconds, 100)));
        let shown = screen(&model, width, 24);
        assert!(line_with(&shown, "run p99").contains("refu/s"), "{shown}");
        let row: Vec<String> = line_with(&shown, "=cache_shard")
            .replace('│', " ")
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let has = |word: &str| row.iter().any(|found| found == word);
        assert!(has("100/100") && has("7"), "{row:?}");
        let other = line_with(&shown, " numa ");
        assert!(other.contains(" 42 "), "no bound: {other}");
    }
    let red = |model: &Model| {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("no device");
        terminal
            .draw(|frame| draw(frame, model))
            .expect("no device");
        let cells = terminal.backend().buffer().content();
        cells.iter().filter(|cell| cell.fg == Color::Red).count()
    };
    let mut model = Model::new();
    model.look(bounded(1, 100));
    let full = red(&model);
    model.show(bounded(1, 99));
    assert!(full > red(&model), "only a full one is red");
}

#[test]
fn a_small_or_a_large_screen_is_no_reason_to_fail() {
    let model = model();
    for (width, height) in [(1, 1), (10, 5), (40, 10), (79, 23), (300, 100)] {
        screen(&model, width, height);
    }
    screen(&Model::new(), 80, 24);
}

#[test]
fn a_narrow_screen_shows_fewer_numbers_and_none_without_its_first_or_last_digits() {
    let mut state = state(4);
    // The widest that a column has room for, and wider ones.
    for queue in &mut state.engines[0].queues {
        queue.started += 4_000_000;
        queue.completed = queue.started - 123_456;
        queue.cpu_ns += 8_192_000_000_000;
        queue.enqueue_p99_ns = Some(9_876_000);
    }
    let mut model = model();
    model.look(state);
    press(&mut model, KeyCode::Char(' '));
    let words = |line: &str| -> Vec<String> {
        let words = line.split(|c: char| c.is_whitespace() || "\"│·".contains(c));
        let words = words.filter(|word| word.contains(|c: char| c.is_ascii_digit()));
        words.map(str::to_owned).collect()
    };
    let lines = |width| {
        let screen = screen(&model, width, 24);
        let mut lines = screen.lines().map(str::to_owned);
        let head = lines.next().expect("the head");
        let row = lines.find(|line| line.starts_with("\"│fast"));
        (head, row.expect("its row"))
    };
    let (wide_head, wide_row) = lines(200);
    for number in ["4001k", "123k", "819k", "2340us", "56us", "9876us"] {
        assert!(wide_row.contains(number), "{number} in {wide_row}");
    }
    for width in 30..=200 {
        let (head, row) = lines(width);
        assert!(head.contains("HELD"), "{head}");
        for (narrow, wide) in [(head, &wide_head), (row, &wide_row)] {
            let all = words(wide);
            for word in words(&narrow) {
                assert!(all.contains(&word), "{word} at {width}: {narrow}, {wide}");
            }
        }
    }
}

#[test]
fn keys_select_sort_filter_and_hold() {
    let mut model = model();
    let names =
        |model: &Model| -> Vec<String> { model.rows().into_iter().map(|row| row.key).collect() };
    assert_eq!(names(&model), ["fast", "slow"]);
    for _ in 0..4 {
        assert_eq!(press(&mut model, KeyCode::Char('s')), Action::None);
    }
    assert_eq!(model.sort().name(), "name");
    press(&mut model, KeyCode::Down);
    press(&mut model, KeyCode::Down);
    assert_eq!(model.selected(), 1);
    press(&mut model, KeyCode::Char('/'));
    for c in "slq".chars() {
        assert_eq!(
            press(&mut model, KeyCode::Char(c)),
            Action::None,
            "typed, not done"
        );
    }
    assert!(names(&model).is_empty());
    press(&mut model, KeyCode::Backspace);
    press(&mut model, KeyCode::Enter);
    assert_eq!(
        (names(&model), model.selected()),
        (vec!["slow".to_owned()], 0)
    );
    press(&mut model, KeyCode::Char(' '));
    assert!(model.is_held() && screen(&model, 80, 24).contains("HELD"));
    assert_eq!(press(&mut model, KeyCode::Char('q')), Action::Quit);
    assert_eq!(
        model.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)),
        Action::Quit
    );
    // Control and A are no A.
    for key in ['a', 'q', ' '] {
        let key = KeyEvent::new(KeyCode::Char(key), KeyModifiers::CONTROL);
        assert_eq!(model.key(key), Action::None);
    }
    assert!(model.is_held());
}

#[test]
fn keys_change_what_the_selected_queue_has() {
    let mut model = model();
    let set = |attribute, value: &str| Action::Set {
        queue: "fast".to_owned(),
        attribute,
        value: value.to_owned(),
    };
    assert_eq!(
        press(&mut model, KeyCode::Char('a')),
        set("affinity_scope", "cpu")
    );
    assert_eq!(
        press(&mut model, KeyCode::Char('S')),
        set("affinity_strict", "1")
    );
    assert_eq!(
        press(&mut model, KeyCode::Char('+')),
        set("max_active", "2048")
    );
    assert_eq!(
        press(&mut model, KeyCode::Char('-')),
        set("max_active", "750")
    );
    press(&mut model, KeyCode::Down);
    let Action::Set { value, .. } = press(&mut model, KeyCode::Char('a')) else {
        panic!("no change");
    };
    assert_eq!(value, "system");
}

#[test]
fn a_selected_queue_stays_selected_wherever_its_row_goes() {
    let rows =
        |model: &Model| -> Vec<String> { model.rows().into_iter().map(|row| row.key).collect() };
    // In which the slow queue was faster since the sample before.
    let other_order = || {
        let mut state = state(4);
        state.engines[0].queues[0].started += 5_000;
        state
    };
    for (keys, expected) in [
        // The second row.
        (vec![KeyCode::Down], "slow"),
        // A queue that the user has changed may be changed further.
        (vec![KeyCode::Char('+')], "fast"),
    ] {
        let mut model = model();
        assert_eq!(rows(&model), ["fast", "slow"]);
        for key in keys {
            press(&mut model, key);
        }
        model.look(other_order());
        assert_eq!(rows(&model), ["slow", "fast"]);
        let Action::Set { queue, .. } = press(&mut model, KeyCode::Char('-')) else {
            panic!("no change");
        };
        assert_eq!(queue, expected);
    }
    // Without a choice the first row is selected: the view begins there.
    let mut model = model();
    model.look(other_order());
    assert_eq!(model.selected(), 0);
}

#[test]
fn what_a_key_changes_is_shown_at_once_and_the_rates_stay() {
    let mut model = model();
    let mut changed = state(3);
    changed.at_ns += 1_000_000;
    for queue in &mut changed.engines[0].queues {
        let attribute = queue.attributes.get_mut("affinity_scope");
        *attribute.expect("it has one") = "smt".to_owned();
    }
    model.show(changed);
    let fast = &model.rows()[0];
    assert_eq!(
        (fast.key.as_str(), fast.scope.as_str()),
        ("fast", "smt"),
        "its scope is the new one"
    );
    assert_eq!(
        (fast.items_per_s, &fast.history[..]),
        (1000.0, &[1000; 2][..])
    );
    // The next sample counts from the last one on.
    model.look(state(4));
    assert_eq!(model.rows()[0].history, [1000; 3]);
}

#[test]
fn the_slowest_runs_are_kept_and_no_others() {
    let mut model = Model::new();
    for seconds in 1..100 {
        let mut state = state(seconds);
        let run = &mut state.engines[0].pools[0].runs[0];
        run.queue = format!("request#{seconds}");
        // The fiftieth is the slowest.
        run.for_ns = 1_000 - seconds.abs_diff(50);
        model.look(state);
    }
    let slowest = model.slowest();
    assert_eq!(
        (slowest[0].queue.as_str(), slowest.len()),
        ("request#50", 32)
    );
}

#[test]
fn a_queue_that_went_takes_its_history_along_and_the_slowest_item_stays() {
    let mut model = model();
    let mut later = state(4);
    later.engines[0].queues.truncate(1);
    later.engines[0].pools[0].runs.clear();
    model.look(later);
    assert_eq!(model.rows().len(), 1);
    assert!(model.running().is_empty());
    assert_eq!(model.slowest()[0].for_ns, 36_000_000);
}

#[test]
fn the_picture_has_every_line_and_nothing_that_breaks_it() {
    let mut model = model();
    model.say("a <b> & c".to_owned());
    let mut terminal = Terminal::new(TestBackend::new(80, 24)).expect("no device");
    terminal
        .draw(|frame| draw(frame, &model))
        .expect("no device");
    let picture = svg::render(terminal.backend().buffer());
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    assert!(picture.contains("a &lt;b&gt; &amp; c"));
    assert!(picture.contains("slow") && picture.contains("server 4321"));
}

#[test]
fn a_quota_has_a_line_of_its_own_in_eighty_columns() {
    let mut model = model();
    let mut limited = state(4);
    let parameters = [
        ("running_limit", "1"),
        (
            "cpu_quota",
            "0.20 CPUs (20000 of every 100000 us, /a (b), c), throttled in 8 of 45 periods, weight 20, idle class",
        ),
    ];
    limited.engines[0].parameters = parameters
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    model.look(limited);
    let screen = screen(&model, 80, 24);
    assert!(screen.contains("1 workers (at most 1 run)"), "{screen}");
    let quota = " CPU quota 0.20 CPUs, throttled in 8 of 45 periods, weight 20, idle class";
    assert!(screen.lines().any(|line| line.contains(quota)), "{screen}");
}

#[test]
fn counters_of_the_program_have_a_line_of_their_own() {
    let mut model = model();
    let mut counting = state(4);
    counting.counters = ["nbd_requests", "nbd_requests_inline"]
        .map(|name| Counter {
            name: name.to_owned(),
            help: String::new(),
            value: 234_998,
        })
        .into();
    model.look(counting);
    let screen = screen(&model, 80, 24);
    let expected = " nbd_requests 234998 · nbd_requests_inline 234998";
    assert!(
        screen.lines().any(|line| line.contains(expected)),
        "{screen}"
    );
}

#[test]
fn a_steady_trend_stands_at_half_the_height_where_a_rise_and_a_fall_show() {
    assert_eq!(sparkline(&[100; 8]), "▅▅▅▅▅▅▅▅");
    assert_eq!(sparkline(&[0; 3]), "▁▁▁");
    assert_eq!(sparkline(&[]), "");
    let rising = sparkline(&[0, 0, 10, 20, 40, 80, 90, 100]);
    assert!(
        rising.starts_with("▁▁▂") && rising.ends_with('█'),
        "{rising}"
    );
    let falling = sparkline(&[100, 100, 100, 100, 100, 10]);
    assert!(
        falling.starts_with("▆▆") && falling.ends_with('▂'),
        "{falling}"
    );
}

/// The cells of the screen that show a bar of a trend.
fn bars(screen: &Buffer) -> Vec<&ratatui::buffer::Cell> {
    let is_bar = |cell: &&ratatui::buffer::Cell| {
        BARS[..7].iter().any(|bar| cell.symbol() == bar.to_string())
    };
    screen.content.iter().filter(is_bar).collect()
}

#[test]
fn the_trend_of_the_selected_row_is_no_black_bar_and_colours_can_be_left_out() {
    let mut model = Model::new();
    for second in 0..12 {
        model.look(state(second));
    }
    let mut terminal = Terminal::new(TestBackend::new(100, 24)).expect("a screen");
    terminal.draw(|frame| draw(frame, &model)).expect("drawn");
    let mut screen = terminal.backend().buffer().clone();
    let shown = bars(&screen);
    assert_eq!(shown.len(), 16, "two rows of eight");
    for bar in shown {
        assert!(!bar.modifier.contains(Modifier::REVERSED));
        assert_eq!(bar.fg, Color::Cyan);
    }
    without_colors(&mut screen);
    let coloured = screen
        .content
        .iter()
        .filter(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
    assert_eq!(coloured.count(), 0);
}
