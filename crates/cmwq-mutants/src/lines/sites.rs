//! The places that can be changed: statements, conditions and bounds.

use crate::orderings::{is_shipped, list};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::ops::Range;
use std::path::Path;
use std::{fs, io};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, BinOp, Block, Expr, ReturnType, Stmt};

/// What is changed at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// The statement is taken out.
    Deleted,
    /// The condition, or a part of it, is true whatever it says.
    True,
    /// The same for false.
    False,
    /// `<` is `<=`, and so on.
    Bound,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Deleted => "deleted",
            Kind::True => "true",
            Kind::False => "false",
            Kind::Bound => "bound",
        }
    }
}

/// One way to change one place.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    pub(crate) number: u32,
    /// Below `crates/cmwq/src`.
    pub(crate) file: String,
    pub(crate) line: usize,
    pub(crate) kind: Kind,
    /// The statement or condition, in one line.
    pub(crate) text: String,
    /// What names the place when lines have moved: file, text, and which one of that text it is.
    pub(crate) key: String,
    /// The number that its place tells when it is reached, and the bit that says that the mutant
    /// would have changed something there.
    pub(crate) reached: (u32, u8),
}

/// What replaces a range of a file: it goes on between the two texts.
struct Edit {
    range: Range<usize>,
    before: String,
    after: String,
    key: String,
}

/// A place of the changed sources: where it lies in its file, and its key.
pub(crate) type Place = (Range<usize>, String);

/// All mutants of sources, and the places of the changed files if they were changed.
pub(crate) struct Sites {
    pub(crate) mutants: Vec<Mutant>,
    pub(crate) places: BTreeMap<String, Vec<Place>>,
}

/// Modules without a promise to users: the simulator's parts, checks, descriptions of what happens.
fn is_looked_at(file: &str) -> bool {
    let others = [
        "sys/debug/",
        "sys/sim/",
        "sys/memory/prefetch.rs",
        "pool/silent.rs",
        "pool/stubs.rs",
        "pool/report/",
        "pool/state/invariants.rs",
        "inspect/",
        "trace/",
        "lib.rs",
        "observe.rs",
        "raw.rs",
    ];
    is_shipped(file) && !others.iter().any(|begins| file.starts_with(begins))
}

/// Makes each place of a copy of the sources a question, but for those that are left out.
pub(crate) fn put_in(sources: &Path, left_out: &BTreeSet<String>) -> io::Result<Sites> {
    let mut files = Vec::new();
    list(sources, &mut files)?;
    files.sort();
    let mut sites = Sites {
        mutants: Vec::new(),
        places: BTreeMap::new(),
    };
    for path in files {
        let name = path.strip_prefix(sources).expect("it is below");
        let file = name.to_string_lossy().into_owned();
        if is_looked_at(&file) {
            let source = fs::read_to_string(&path)?;
            let (changed, places) = change(&file, &source, left_out, &mut sites.mutants)?;
            fs::write(&path, changed)?;
            sites.places.insert(file, places);
        }
    }
    let root = sources.join("lib.rs");
    let library = fs::read_to_string(&root)?;
    fs::write(&root, library + include_str!("question.txt"))?;
    Ok(sites)
}

/// The changed source, and its places.
fn change(
    file: &str,
    source: &str,
    left_out: &BTreeSet<String>,
    mutants: &mut Vec<Mutant>,
) -> io::Result<(String, Vec<Place>)> {
    let tree = syn::parse_file(source).map_err(io::Error::other)?;
    let mut finder = Finder {
        file,
        source,
        left_out,
        mutants,
        edits: Vec::new(),
        named: BTreeMap::new(),
        is_unit: false,
    };
    finder.visit_file(&tree);
    Ok(apply(source, finder.edits))
}

fn apply(source: &str, edits: Vec<Edit>) -> (String, Vec<Place>) {
    // At one place ends come before beginnings; of two beginnings the larger range's is first, and of
    // two ends that of the smaller range.
    let mut events: Vec<(usize, bool, isize, isize, &str)> = Vec::new();
    for (index, edit) in edits.iter().enumerate() {
        let (start, end) = (edit.range.start, edit.range.end);
        let index = index as isize;
        events.push((start, true, -(end as isize), index, &edit.before));
        events.push((end, false, -(start as isize), -index, &edit.after));
    }
    events.sort();
    let mut text = String::with_capacity(source.len() * 2);
    let mut places: Vec<Place> = edits.iter().map(|edit| (0..0, edit.key.clone())).collect();
    let mut at = 0;
    for (position, begins, _, index, inserted) in events {
        text.push_str(&source[at..position]);
        at = position;
        let place = &mut places[index.unsigned_abs()].0;
        match begins {
            true => place.start = text.len(),
            false => place.end = text.len() + inserted.len(),
        }
        text.push_str(inserted);
    }
    text.push_str(&source[at..]);
    (text, places)
}

struct Finder<'a> {
    file: &'a str,
    source: &'a str,
    left_out: &'a BTreeSet<String>,
    mutants: &'a mut Vec<Mutant>,
    edits: Vec<Edit>,
    /// How many places with this text there were.
    named: BTreeMap<String, u32>,
    /// What ends a block here returns nothing.
    is_unit: bool,
}

/// Whether it belongs to tests or models.
fn is_of_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) if list.path.is_ident("cfg") => {
            let text = list.tokens.to_string().replace(' ', "");
            let condition = text.trim_start_matches("all(").trim_start_matches("any(");
            condition.starts_with("test") || condition.starts_with("cmwq_loom")
        }
        meta => meta.path().is_ident("test"),
    })
}

/// It leaves the function or loop, so that what comes behind it is another program without it.
fn leaves(text: &str) -> bool {
    ["return", "break", "continue", "?", ".await"]
        .iter()
        .any(|word| text.contains(word))
}

/// Whether a statement of this kind can be taken out. An assignment to a variable may be its first
/// one; a `drop` lets a borrow end.
fn can_go(expr: &Expr) -> bool {
    match expr {
        Expr::Assign(assign) => !matches!(&*assign.left, Expr::Path(_)),
        Expr::Call(call) => !matches!(&*call.func, Expr::Path(path) if path.path.is_ident("drop")),
        Expr::MethodCall(_) | Expr::Unsafe(_) => true,
        Expr::Binary(binary) => assigns(&binary.op),
        _ => false,
    }
}

fn assigns(op: &BinOp) -> bool {
    matches!(
        op,
        BinOp::AddAssign(_)
            | BinOp::SubAssign(_)
            | BinOp::BitAndAssign(_)
            | BinOp::BitOrAssign(_)
            | BinOp::BitXorAssign(_)
    )
}

impl Finder<'_> {
    fn text(&self, spanned: &impl Spanned) -> &str {
        &self.source[spanned.span().byte_range()]
    }

    /// One place with these mutants.
    fn add(
        &mut self,
        range: Range<usize>,
        kinds: &[Kind],
        question: impl FnOnce(u32) -> (String, String),
    ) {
        let words: Vec<&str> = self.source[range.clone()].split_whitespace().collect();
        let text = words.join(" ");
        let base = format!("{}|{}|{text}", self.file, kinds[0].name());
        let nth = self.named.entry(base.clone()).or_insert(0);
        *nth += 1;
        let key = format!("{base}|{nth}");
        if self.left_out.contains(&key) {
            return;
        }
        let line = self.source[..range.start].matches('\n').count() + 1;
        let first = self.mutants.last().map_or(1, |last| last.number + 1);
        for (number, &kind) in (first..).zip(kinds) {
            let bit = match kind {
                Kind::False => 2,
                Kind::Deleted | Kind::True | Kind::Bound => 1,
            };
            self.mutants.push(Mutant {
                number,
                file: self.file.to_owned(),
                line,
                kind,
                text: text.clone(),
                key: key.clone(),
                reached: (first, bit),
            });
        }
        let (before, after) = question(first);
        self.edits.push(Edit {
            range,
            before,
            after,
            key,
        });
    }

    fn deletes(&mut self, spanned: &impl Spanned) {
        let text = self.text(spanned);
        // A statement with an attribute is for tests or for the simulator.
        if leaves(text) || text.starts_with("#[") {
            return;
        }
        let question = |number| {
            let before = format!("if !crate::mutant::is({number}) {{ ");
            (before, " }".to_owned())
        };
        self.add(spanned.span().byte_range(), &[Kind::Deleted], question);
    }

    /// Each part of a condition.
    fn condition(&mut self, expr: &Expr) {
        match expr {
            Expr::Binary(binary) if matches!(binary.op, BinOp::And(_) | BinOp::Or(_)) => {
                self.condition(&binary.left);
                self.condition(&binary.right);
            }
            Expr::Paren(paren) => self.condition(&paren.expr),
            Expr::Let(scrutinee) => self.visit_expr(&scrutinee.expr),
            Expr::Lit(_) => {}
            _ => {
                let question = |number| {
                    let before = format!("crate::mutant::forced({number}, ");
                    (before, ")".to_owned())
                };
                let kinds = [Kind::True, Kind::False];
                self.add(expr.span().byte_range(), &kinds, question);
                self.visit_expr(expr);
            }
        }
    }

    /// The body of a function or loop, whose last expression is a statement if it returns nothing.
    fn body(&mut self, is_unit: bool, body: &Block) {
        let outer = std::mem::replace(&mut self.is_unit, is_unit);
        self.visit_block(body);
        self.is_unit = outer;
    }

    fn function(&mut self, attributes: &[Attribute], signature: &syn::Signature, body: &Block) {
        // What is constant cannot ask.
        if !is_of_tests(attributes) && signature.constness.is_none() {
            self.body(matches!(signature.output, ReturnType::Default), body);
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_attribute(&mut self, _: &'ast Attribute) {}
    fn visit_type(&mut self, _: &'ast syn::Type) {}
    fn visit_pat(&mut self, _: &'ast syn::Pat) {}
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
    fn visit_generics(&mut self, _: &'ast syn::Generics) {}
    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'ast syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'ast syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'ast syn::ExprConst) {}

    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        if !is_of_tests(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast syn::ItemFn) {
        self.function(&item.attrs, &item.sig, &item.block);
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        // What it says is no behaviour.
        if item.sig.ident != "fmt" {
            self.function(&item.attrs, &item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'ast syn::TraitItemFn) {
        if let Some(body) = &item.default {
            self.function(&item.attrs, &item.sig, body);
        }
    }

    fn visit_block(&mut self, block: &'ast Block) {
        for (index, statement) in block.stmts.iter().enumerate() {
            if let Stmt::Expr(expr, semicolon) = statement {
                let is_last = index + 1 == block.stmts.len();
                if can_go(expr) && (semicolon.is_some() || is_last && self.is_unit) {
                    self.deletes(statement);
                }
            }
        }
        visit::visit_block(self, block);
    }

    fn visit_local(&mut self, local: &'ast syn::Local) {
        if !is_of_tests(&local.attrs) {
            let outer = std::mem::replace(&mut self.is_unit, false);
            visit::visit_local(self, local);
            self.is_unit = outer;
        }
    }

    fn visit_expr_closure(&mut self, closure: &'ast syn::ExprClosure) {
        let outer = std::mem::replace(&mut self.is_unit, false);
        self.visit_expr(&closure.body);
        self.is_unit = outer;
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        let outer = std::mem::replace(&mut self.is_unit, false);
        visit::visit_expr_method_call(self, call);
        self.is_unit = outer;
    }

    fn visit_expr_call(&mut self, call: &'ast syn::ExprCall) {
        let outer = std::mem::replace(&mut self.is_unit, false);
        visit::visit_expr_call(self, call);
        self.is_unit = outer;
    }

    fn visit_expr_if(&mut self, choice: &'ast syn::ExprIf) {
        self.condition(&choice.cond);
        self.visit_block(&choice.then_branch);
        if let Some((_, other)) = &choice.else_branch {
            self.visit_expr(other);
        }
    }

    fn visit_expr_while(&mut self, repeats: &'ast syn::ExprWhile) {
        // Not its condition: without an end it is found by any deadline, which takes long.
        self.body(true, &repeats.body);
    }

    fn visit_expr_for_loop(&mut self, repeats: &'ast syn::ExprForLoop) {
        self.visit_expr(&repeats.expr);
        self.body(true, &repeats.body);
    }

    fn visit_expr_loop(&mut self, repeats: &'ast syn::ExprLoop) {
        self.body(true, &repeats.body);
    }

    fn visit_arm(&mut self, arm: &'ast syn::Arm) {
        if let syn::Pat::Guard(pattern) = &arm.pat {
            self.condition(&pattern.guard);
        }
        if self.is_unit && can_go(&arm.body) {
            self.deletes(&*arm.body);
        }
        self.visit_expr(&arm.body);
    }

    fn visit_expr_binary(&mut self, binary: &'ast syn::ExprBinary) {
        let moved = match binary.op {
            BinOp::And(_) | BinOp::Or(_) => {
                self.condition(&binary.left);
                return self.condition(&binary.right);
            }
            BinOp::Lt(_) => Some("<="),
            BinOp::Le(_) => Some("<"),
            BinOp::Gt(_) => Some(">="),
            BinOp::Ge(_) => Some(">"),
            _ => None,
        };
        if let Some(moved) = moved {
            let (left, right) = (self.text(&binary.left), self.text(&binary.right));
            let other = format!("{left} {moved} {right}");
            let question = |number| {
                let mut before = String::new();
                // Writing to a string does not fail.
                let _ = write!(
                    before,
                    "(if crate::mutant::is({number}) {{ {other} }} else {{ "
                );
                (before, " })".to_owned())
            };
            self.add(binary.span().byte_range(), &[Kind::Bound], question);
        }
        visit::visit_expr_binary(self, binary);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
fn f(mut n: u32) {
    let first;
    first = 1;
    if n > first && self.is_empty() {
        self.wake();
        drop(self);
        #[cfg(cmwq_sim)]
        self.tell();
    }
    while n < 3 {
        n += 1;
    }
    for _ in 0..2 {
        self.last()
    }
}
const fn g() -> bool {
    1 < 2
}
#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    fn f() {
        h();
    }
}
";

    #[test]
    fn statements_conditions_and_bounds_are_found_and_tests_are_not() {
        let mut mutants = Vec::new();
        let (changed, places) = change("x.rs", SOURCE, &BTreeSet::new(), &mut mutants).unwrap();
        let found: Vec<_> = mutants
            .iter()
            .map(|m| (m.line, m.kind, m.text.as_str()))
            .collect();
        let expected = [
            (4, Kind::True, "n > first"),
            (4, Kind::False, "n > first"),
            (4, Kind::Bound, "n > first"),
            (4, Kind::True, "self.is_empty()"),
            (4, Kind::False, "self.is_empty()"),
            (5, Kind::Deleted, "self.wake();"),
            (11, Kind::Deleted, "n += 1;"),
            (14, Kind::Deleted, "self.last()"),
        ];
        assert_eq!(found, expected);
        let numbers: Vec<u32> = mutants.iter().map(|m| m.number).collect();
        assert_eq!(numbers, (1..=8).collect::<Vec<_>>());
        let condition = "crate::mutant::forced(1, (if crate::mutant::is(3) { n >= first } else { \
             n > first })) && crate::mutant::forced(4, self.is_empty())";
        assert!(changed.contains(condition), "{changed}");
        syn::parse_file(&changed).expect("it is still Rust");
        let (range, key) = &places[2];
        assert_eq!(
            &changed[range.clone()],
            "crate::mutant::forced(4, self.is_empty())"
        );
        // What is left out has no number.
        let mut fewer = Vec::new();
        let left_out = BTreeSet::from([key.clone()]);
        change("x.rs", SOURCE, &left_out, &mut fewer).unwrap();
        assert_eq!(fewer.len(), 6);
    }
}
