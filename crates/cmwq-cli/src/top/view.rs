//! How `cmwq top` is drawn: a line about the process, the pods as a map of the machine, the
//! workqueues, the items, the keys.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Cell, Paragraph, Row, Table};

use cmwq_control::protocol::Pool;

use super::model::{self, Item, Model};
use crate::control::latency;
use crate::output::{end_in_columns, printable, width as width_of};

/// Lines for the pods, with the frame.
const PODS_LINES: u16 = 5;
/// Lines for the items, with the frame.
const ITEMS_LINES: u16 = 6;
/// The columns of the workqueues: their least widths, and which are left out first where the
/// terminal is narrow.
const WIDTHS: [u16; 17] = [8, 9, 12, 7, 4, 9, 4, 8, 8, 8, 7, 7, 8, 6, 7, 5, 8];
const NAME: usize = 0;
const WAITING: usize = 5;
const REFUSED: usize = 13;
const FIRST_TO_GO: [usize; 16] = [7, 10, 12, 15, 16, 14, 1, 9, 2, 6, 4, 13, 5, 11, 8, 3];
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

pub(super) fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [head, pods, queues, items, keys] = Layout::vertical([
        Constraint::Length(
            1 + u16::from(model.quota().is_some()) + u16::from(model.counters().is_some()),
        ),
        Constraint::Length(PODS_LINES),
        Constraint::Min(4),
        Constraint::Length(ITEMS_LINES),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(headline(model, usize::from(head.width)), head);
    draw_pods(frame, pods, model);
    draw_queues(frame, queues, model);
    draw_items(frame, items, model);
    frame.render_widget(footline(model), keys);
}

/// For terminals and people that want none: what is bold or reversed stays so.
pub(super) fn without_colors(screen: &mut Buffer) {
    for cell in &mut screen.content {
        (cell.fg, cell.bg) = (Color::Reset, Color::Reset);
    }
}

/// A number in a few columns.
fn short(number: f64) -> String {
    // The sum of no numbers is -0.
    match number + 0.0 {
        n if n < 10_000.0 => format!("{n:.0}"),
        n if n < 9_999_500.0 => format!("{:.0}k", n / 1e3),
        n => format!("{:.1}M", n / 1e6),
    }
}

/// As much as has room: half a number would be another number.
fn headline(model: &Model, width: usize) -> Paragraph<'static> {
    let (pid, name) = model.process();
    let rows = model.rows();
    let rate: f64 = rows.iter().map(|row| row.items_per_s).sum();
    let workers: usize = model.pools().map(|pool| pool.workers.len()).sum();
    let waits: u64 = model
        .engines()
        .iter()
        .map(|engine| engine.totals.lock_waits)
        .sum();
    let limit = model.limit();
    let mut text = format!(" {name} {pid}");
    if model.is_held() {
        text += " · HELD";
    }
    let parts = match model.emptiness() {
        Some(why) => vec![why.to_owned()],
        None => vec![
            format!("{} items/s", short(rate)),
            format!("{} queues", rows.len()),
            format!("{} pools", model.pools().count()),
            format!("{workers} workers{limit}"),
            format!("{waits} lock waits"),
        ],
    };
    for part in parts {
        let longer = format!("{text} · {part}");
        if Span::raw(longer.as_str()).width() > width {
            break;
        }
        text = longer;
    }
    // Eighty columns are too few for all.
    let below = [model.quota(), model.counters()];
    let below = below.map(|line| line.map(|line| format!(" {line}")));
    let lines = [Some(text)].into_iter().chain(below);
    let lines: Vec<Line<'_>> = lines.flatten().map(Line::from).collect();
    Paragraph::new(lines).style(Style::new().add_modifier(Modifier::REVERSED))
}

/// Green while a pod has CPUs to spare, yellow when it has not, red when work waits for them.
fn load_colour(pool: &Pool) -> Color {
    let full = pool.running >= pool.target;
    match (full, pool.waiting) {
        (true, waiting) if waiting > pool.target => Color::Red,
        (true, _) => Color::Yellow,
        _ if pool.running > 0 => Color::Green,
        _ => Color::DarkGray,
    }
}

fn pod(pool: &Pool) -> Vec<Span<'static>> {
    let colour = load_colour(pool);
    // A block for each CPU of the pod, eight at most.
    let blocks = pool.target.clamp(1, 8);
    let busy = (pool.running * blocks)
        .div_ceil(pool.target.max(1))
        .min(blocks);
    let bar: String = (0..blocks)
        .map(|at| if at < busy { '█' } else { '░' })
        .collect();
    let what = match pool.kind.as_str() {
        "unbound" => "",
        other => other,
    };
    let nice = match pool.nice {
        0 => String::new(),
        nice => format!(" n{nice}"),
    };
    vec![
        Span::raw(format!("{what}{}{nice} ", pool.pod_cpus)),
        Span::styled(bar, Style::new().fg(colour)),
        Span::raw(format!(
            " {}/{} w{} q{}",
            pool.running,
            pool.target,
            pool.workers.len(),
            pool.waiting
        )),
    ]
}

fn draw_pods(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    // Pools with threads: an unused per-CPU pool says nothing.
    let mut pools: Vec<&Pool> = model
        .pools()
        .filter(|pool| !pool.workers.is_empty() || pool.waiting > 0)
        .collect();
    let block = Block::bordered().title(" pods: CPUs, running/target, workers, waiting ");
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let cells: Vec<Vec<Span<'static>>> = pools.iter().map(|pool| pod(pool)).collect();
    let width = |cell: &[Span<'static>]| cell.iter().map(Span::width).sum::<usize>();
    let widest = cells.iter().map(|cell| width(cell)).max().unwrap_or(1) + 2;
    let columns = (inner.width as usize / widest).max(1);
    let room = columns * inner.height as usize;
    // If not all fit, the busiest are shown.
    let mut order: Vec<usize> = (0..pools.len()).collect();
    if order.len() > room {
        order.sort_by_key(|&at| std::cmp::Reverse((pools[at].waiting, pools[at].running)));
        order.truncate(room.saturating_sub(1));
        order.sort_unstable();
    }
    let hidden = pools.len() - order.len();
    pools.clear();
    let mut shown: Vec<Vec<Span<'static>>> = order.iter().map(|&at| cells[at].clone()).collect();
    if hidden > 0 {
        shown.push(vec![Span::raw(format!("and {hidden} calmer ones"))]);
    }
    let lines: Vec<Line<'static>> = shown
        .chunks(columns)
        .map(|cells| {
            let mut line = Vec::new();
            for cell in cells {
                let blank = widest.saturating_sub(width(cell));
                line.extend(cell.iter().cloned());
                line.push(Span::raw(" ".repeat(blank)));
            }
            Line::from(line)
        })
        .collect();
    frame.render_widget(Paragraph::new(lines), inner);
}

/// The top is the greatest rate, or twice the mean: what is steady stays at half the height, where
/// a rise and a fall both show.
fn sparkline(history: &[u64]) -> String {
    let samples = (history.len() as u64).max(1);
    let mean = history.iter().sum::<u64>() / samples;
    let most = history
        .iter()
        .copied()
        .max()
        .unwrap_or(0)
        .max(2 * mean)
        .max(1);
    let bar = |value: &u64| BARS[((value * 7).div_ceil(most)) as usize];
    history.iter().map(bar).collect()
}

/// Without bounds there is none to be shown behind what waits.
fn width(column: usize, bounded: bool) -> u16 {
    match column {
        WAITING if !bounded => 5,
        column => WIDTHS[column],
    }
}

/// Which columns have room in a line, with a blank between two. Nothing is refused where nothing
/// is bounded.
fn columns(room: u16, bounded: bool) -> Vec<usize> {
    let mut columns: Vec<usize> = (0..WIDTHS.len())
        .filter(|&at| bounded || at != REFUSED)
        .collect();
    for gone in FIRST_TO_GO {
        let taken: u16 = columns.iter().map(|&at| width(at, bounded) + 1).sum();
        if taken <= room + 1 {
            break;
        }
        columns.retain(|&at| at != gone);
    }
    columns
}

/// What stands in these columns.
fn kept<'c>(columns: &[usize], cells: [Cell<'c>; WIDTHS.len()]) -> Vec<Cell<'c>> {
    let cells = cells.into_iter().enumerate();
    let kept = cells.filter(|(at, _)| columns.contains(at));
    kept.map(|(_, cell)| cell).collect()
}

fn number(text: String) -> Cell<'static> {
    Cell::from(Line::from(text).right_aligned())
}

/// What waits, and the bound on it; red when the queue is full.
fn waiting(row: &model::Row) -> Cell<'static> {
    let waiting = short(row.waiting as f64);
    let Some(most) = row.max_waiting else {
        return number(waiting);
    };
    let cell = number(format!("{waiting}/{}", short(most as f64)));
    match row.waiting >= most {
        true => cell.style(Style::new().fg(Color::Red)),
        false => cell,
    }
}

fn refused(row: &model::Row) -> String {
    match row.max_waiting {
        Some(_) => short(row.refused_per_s),
        None => "-".to_owned(),
    }
}

fn draw_queues(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    if let Some(why) = model.emptiness() {
        let (pid, name) = model.process();
        let text = Paragraph::new(format!(" {name} ({pid}) has {why}."));
        let block = Block::bordered().title(" workqueues ");
        frame.render_widget(text.block(block), area);
        return;
    }
    let rows = model.rows();
    let (filter, typing) = model.filter();
    let title = match (filter, typing) {
        ("", false) => format!(" workqueues by {} ", model.sort().name()),
        (filter, _) => format!(" workqueues by {}, with \"{filter}\" ", model.sort().name()),
    };
    // Not reversed in the selected row either: a bar there would be the ground of its neighbours.
    let trend = Style::new()
        .fg(Color::Cyan)
        .remove_modifier(Modifier::REVERSED);
    let bounded = rows.iter().any(|row| row.max_waiting.is_some());
    let columns = columns(area.width.saturating_sub(2), bounded);
    let room = area.height.saturating_sub(3) as usize;
    // The selected one is always in sight.
    let first = (model.selected() + 1).saturating_sub(room);
    let shown = rows
        .iter()
        .enumerate()
        .skip(first)
        .take(room)
        .map(|(at, row)| {
            let style = if at == model.selected() {
                Style::new().add_modifier(Modifier::REVERSED)
            } else {
                Style::new()
            };
            let cells = [
                Cell::from(row.key.clone()),
                Cell::from(row.kind.clone()),
                Cell::from(row.scope.clone()),
                number(short(row.items_per_s)),
                number(short(row.in_flight as f64)),
                waiting(row),
                number(short(row.cpu_percent)),
                number(latency(row.times.wait_p50_ns)),
                number(latency(row.times.wait_p99_ns)),
                number(until_now(row.times.longest_waiting_ns)),
                number(latency(row.times.run_p50_ns)),
                number(latency(row.times.run_p99_ns)),
                number(until_now(row.times.longest_running_ns)),
                number(refused(row)),
                number(latency(row.p99_ns)),
                number(short(row.helps_per_s)),
                Cell::from(sparkline(&row.history)).style(trend),
            ];
            Row::new(kept(&columns, cells)).style(style)
        });
    let head = |text: &'static str| Cell::from(Line::from(text).right_aligned());
    let header = [
        Cell::from("name"),
        Cell::from("type"),
        Cell::from("scope"),
        head("items/s"),
        head("infl"),
        head("wait"),
        head("CPU%"),
        head("wait p50"),
        head("wait p99"),
        head("wait now"),
        head("run p50"),
        head("run p99"),
        head("run now"),
        head("refu/s"),
        head("enq p99"),
        head("steal"),
        Cell::from("trend"),
    ];
    let header = Row::new(kept(&columns, header)).style(Style::new().add_modifier(Modifier::BOLD));
    let widths = columns.iter().map(|&at| match at {
        NAME => Constraint::Min(WIDTHS[NAME]),
        at => Constraint::Length(width(at, bounded)),
    });
    let table = Table::new(shown, widths)
        .header(header)
        .block(Block::bordered().title(title));
    frame.render_widget(table, area);
}

/// `server::handle (src/main.rs:42)` of `server::handle::{{closure}} (src/main.rs:42)`: the place
/// says which closure it is, and there is little room.
fn without_closures(function: &str) -> String {
    let is_placed = function.ends_with(')');
    let shorter = function.replace("::{{closure}}", "");
    if is_placed && !shorter.starts_with(' ') {
        shorter
    } else {
        function.to_owned()
    }
}

/// The same where it does not fit: without the folders of its file, then without its modules, then
/// with the line only, then without that. What is still too long begins with `…`.
fn shortened(function: &str, columns: usize) -> String {
    let placed = function.strip_suffix(')');
    let placed = placed.and_then(|text| text.rsplit_once(" ("));
    let (name, place) = placed.unwrap_or((function, ""));
    // Of a type with parameters the last name may be one of theirs. Closures have no name.
    let named = name.trim_end_matches("::{{closure}}");
    let last = match named.rfind("::") {
        Some(at) if !name.contains(['<', ' ']) => &name[at + 2..],
        _ => name,
    };
    let file = place.rsplit('/').next().unwrap_or(place);
    let line = file.rsplit(':').next().unwrap_or(file);
    let with_place = match placed {
        Some(_) => vec![
            format!("{name} ({file})"),
            format!("{last} ({file})"),
            format!("{last}:{line}"),
        ],
        None => Vec::new(),
    };
    let mut shorter = std::iter::once(function.to_owned())
        .chain(with_place)
        .chain([last.to_owned()]);
    let fitting = shorter.find(|text| width_of(text) <= columns);
    fitting.unwrap_or_else(|| match columns {
        0 => String::new(),
        _ => format!("…{}", end_in_columns(last, columns - 1).trim_end()),
    })
}

/// The lines of a panel of items. `least`: an item ran for at least as long as is shown.
fn items(
    title: &'static str,
    items: &[Item],
    least: &str,
    room: usize,
    width: usize,
) -> Paragraph<'static> {
    let lines: Vec<Line<'static>> = items
        .iter()
        .take(room)
        .map(|item| {
            let time = format!("{:>7}", format!("{least}{}", duration(item.for_ns)));
            let queue = format!(" {} ", printable(&item.queue));
            let left = width.saturating_sub(7 + width_of(&queue));
            let function = printable(&without_closures(&item.function));
            let kept = queue + &shortened(&function, left);
            Line::from(vec![
                Span::styled(time, Style::new().fg(age_colour(item.for_ns))),
                Span::raw(kept),
            ])
        })
        .collect();
    Paragraph::new(lines).block(Block::bordered().title(title))
}

fn age_colour(ns: u64) -> Color {
    match ns {
        0..10_000_000 => Color::Green,
        10_000_000..1_000_000_000 => Color::Yellow,
        _ => Color::Red,
    }
}

/// By a clock of a few milliseconds.
fn duration(ns: u64) -> String {
    match ns {
        0..10_000_000_000 => format!("{}ms", ns / 1_000_000),
        _ => format!("{}s", ns / 1_000_000_000),
    }
}

/// How long the oldest item has waited, or run: unlike a percentile this may be days.
fn until_now(ns: Option<u64>) -> String {
    match ns {
        Some(ns) if ns >= 10_000_000_000 => duration(ns),
        ns => latency(ns),
    }
}

fn draw_items(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let [left, right] = Layout::horizontal([Constraint::Fill(1), Constraint::Fill(1)]).areas(area);
    let room = area.height.saturating_sub(2) as usize;
    let width = left.width.saturating_sub(2) as usize;
    let running = items(" running longest ", &model.running(), "", room, width);
    let slowest = items(" slowest seen ", &model.slowest(), "≥", room, width);
    frame.render_widget(running, left);
    frame.render_widget(slowest, right);
}

fn footline(model: &Model) -> Paragraph<'static> {
    let (filter, typing) = model.filter();
    if typing {
        return Paragraph::new(format!(" filter: {filter}_ (Enter: keep, Esc: none)"));
    }
    if !model.message().is_empty() {
        return Paragraph::new(format!(" {}", model.message()))
            .style(Style::new().fg(Color::Yellow));
    }
    Paragraph::new(" ↑↓ select  s sort  / filter  a scope  S strict  +- limit  space hold  q quit")
        .style(Style::new().fg(Color::DarkGray))
}

#[cfg(test)]
mod tests;
