//! Circles in a graph.

use std::collections::BTreeMap;

/// The strongly connected components of more than one node, each sorted (Tarjan's algorithm).
pub(crate) fn circles<'a>(edges: &BTreeMap<&'a str, Vec<&'a str>>) -> Vec<Vec<&'a str>> {
    let mut search = Search {
        edges,
        seen: BTreeMap::new(),
        stack: Vec::new(),
        found: Vec::new(),
    };
    for node in edges.keys() {
        if !search.seen.contains_key(node) {
            search.visit(node);
        }
    }
    search.found.sort();
    search.found
}

struct Seen {
    index: usize,
    low: usize,
    on_stack: bool,
}

struct Search<'e, 'a> {
    edges: &'e BTreeMap<&'a str, Vec<&'a str>>,
    seen: BTreeMap<&'a str, Seen>,
    stack: Vec<&'a str>,
    found: Vec<Vec<&'a str>>,
}

impl<'a> Search<'_, 'a> {
    /// Returns the lowest index that can be reached.
    fn visit(&mut self, node: &'a str) -> usize {
        let index = self.seen.len();
        let seen = Seen {
            index,
            low: index,
            on_stack: true,
        };
        self.seen.insert(node, seen);
        self.stack.push(node);
        let mut low = index;
        let edges = self.edges;
        for &next in edges.get(node).map_or(&[][..], Vec::as_slice) {
            low = low.min(match self.seen.get(next) {
                None => self.visit(next),
                Some(seen) if seen.on_stack => seen.index,
                Some(_) => continue,
            });
        }
        self.seen.get_mut(node).expect("visited").low = low;
        if low == index {
            let at = self.stack.iter().rposition(|&on| on == node);
            let mut circle = self.stack.split_off(at.expect("it is on the stack"));
            for on in &circle {
                self.seen.get_mut(on).expect("visited").on_stack = false;
            }
            if circle.len() > 1 {
                circle.sort_unstable();
                self.found.push(circle);
            }
        }
        self.seen[node].low
    }
}
