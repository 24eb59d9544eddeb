//! Synthetic descriptions that must be refused, each with its whole message.

use cmwq_topology::Topology;
use proptest::prelude::*;

const LEVELS: &str = "levels are pack, die, numa, group, l5 to l1 (l1i to l3i), core and pu, written LEVEL:COUNT, such as core:8";
const ORDER: &str =
    "the order is pack, die, l5 … l1, core, pu, with numa and group anywhere above core";
const NODES: &str = "they are one level, as numa:2, or attached to others, as [numa], and not both";
const INDEXES: &str =
    "write every number, as in 0,2,1,3, or loops, as in 2*2:1*2, or levels, as in numa:core";

#[test]
fn every_bad_description_is_refused_with_the_bad_part_named() {
    let count = |count: &str| format!("{count:?} is no count; it must be a number from 1 to 8192");
    let cases: Vec<(&str, &str, String)> = vec![
        ("", "", format!("no level given; {LEVELS}")),
        ("  \n ", "", format!("no level given; {LEVELS}")),
        ("(memory=1GB)", "", format!("no level given; {LEVELS}")),
        ("banana", "banana", LEVELS.into()),
        ("2 4", "2", LEVELS.into()),
        ("pack:2 4", "4", LEVELS.into()),
        (
            "pack:2 cor:8",
            "cor:8",
            format!("\"cor\" is no level; {LEVELS}"),
        ),
        ("l6:1", "l6:1", format!("\"l6\" is no level; {LEVELS}")),
        ("l4i:1", "l4i:1", format!("\"l4i\" is no level; {LEVELS}")),
        (":4", ":4", format!("\"\" is no level; {LEVELS}")),
        ("core:0", "core:0", count("0")),
        ("core:", "core:", count("")),
        ("core:-1", "core:-1", count("-1")),
        ("core:+1", "core:+1", count("+1")),
        ("core:4x", "core:4x", count("4x")),
        ("core:4:2", "core:4:2", count("4:2")),
        ("core:8193", "core:8193", count("8193")),
        (
            "core:4 core:2",
            "core:2",
            "the level is already given by \"core:4\"; each may be given once".into(),
        ),
        (
            "l3:2 L3Cache:2",
            "L3Cache:2",
            "the level is already given by \"l3:2\"; each may be given once".into(),
        ),
        (
            "numa:2 [numa] core:1",
            "[numa]",
            format!("nodes are already given by \"numa:2\"; {NODES}"),
        ),
        (
            "pack:2 [numa] numa:2 core:1",
            "numa:2",
            format!("nodes are already given by \"[numa]\"; {NODES}"),
        ),
        (
            "core:2 [numa] pu:2",
            "[numa]",
            format!("it cannot stand after \"core:2\"; {ORDER}"),
        ),
        (
            "pack:2 [numa(indexes=0,2)] [numa(indexes=1,3)] core:2",
            "[numa(indexes=1,3)]",
            "one list numbers all nodes in brackets, and an earlier one has it".into(),
        ),
        (
            "pack:2 [numa(indexes=0,1)] [numa] core:2",
            "indexes=0,1",
            format!("it numbers 2 objects, and there are 4; {INDEXES}"),
        ),
        (
            "pack:2 [numa] core:2 pu:2(indexes=numa:core)",
            "indexes=numa:core",
            format!("\"numa\" is no level that these objects are in; {INDEXES}"),
        ),
        (
            "core:2 pu:2(indexes=core:pu)",
            "indexes=core:pu",
            format!("\"pu\" is no level that these objects are in; {INDEXES}"),
        ),
        (
            "core:2 pu:2(indexes=core:core)",
            "indexes=core:core",
            format!("it names a level twice; {INDEXES}"),
        ),
        (
            "pack:2 [numa] l3:2 [numa(indexes=l3)] core:2",
            "indexes=l3",
            format!("6 cannot be divided by 4; {INDEXES}"),
        ),
        (
            "pu:4(indexes=1*3)",
            "indexes=1*3",
            format!("it numbers 3 objects, which does not divide the 4 there are; {INDEXES}"),
        ),
        (
            "pu:4(indexes=0*2)",
            "indexes=0*2",
            format!("\"0*2\" has a 0; {INDEXES}"),
        ),
        (
            "core:2 pack:2",
            "pack:2",
            format!("it cannot stand after \"core:2\"; {ORDER}"),
        ),
        (
            "pu:2 core:2",
            "core:2",
            format!("it cannot stand after \"pu:2\"; {ORDER}"),
        ),
        (
            "l2:2 l3:2",
            "l3:2",
            format!("it cannot stand after \"l2:2\"; {ORDER}"),
        ),
        (
            "core:2 numa:2",
            "numa:2",
            format!("it cannot stand after \"core:2\"; {ORDER}"),
        ),
        (
            "core:2 pu:2 group:2",
            "group:2",
            format!("it cannot stand after \"core:2\"; {ORDER}"),
        ),
        (
            "pack:128 core:128",
            "core:128",
            "more than 8192 CPUs, the largest machine allowed".into(),
        ),
        ("l3:2(size=1", "l3:2(size=1", "no ')' follows".into()),
        ("l3:2) core:1", "l3:2)", "')' closes nothing".into()),
        (
            "l3:2(a)b core:1",
            "l3:2(a)b",
            "attributes are one pair of parentheses behind the level".into(),
        ),
        (
            "l3:2 (size=1) core:1",
            "(size=1)",
            "attributes stand right behind their level, as in l3:2(size=32MB)".into(),
        ),
        (
            "pack:2 [core] pu:1",
            "[core]",
            "only a NUMA node can be attached, as in [numa] or [numa(memory=8GB)]".into(),
        ),
        (
            "pack:2 [numa:2] pu:1",
            "[numa:2]",
            "only a NUMA node can be attached, as in [numa] or [numa(memory=8GB)]".into(),
        ),
        (
            "pack:2 [[numa]]",
            "[[numa]]",
            "only a NUMA node can be attached, as in [numa] or [numa(memory=8GB)]".into(),
        ),
        (
            "pu:4(indexes=0,1,2)",
            "indexes=0,1,2",
            format!("it numbers 3 objects, and there are 4; {INDEXES}"),
        ),
        (
            "pu:2(indexes=1,1)",
            "indexes=1,1",
            format!("it gives the number 1 twice; {INDEXES}"),
        ),
        (
            "pu:2(indexes=0,x)",
            "indexes=0,x",
            format!("\"x\" is not a number from 0 to 8191; {INDEXES}"),
        ),
        (
            "pu:2(indexes=0,8192)",
            "indexes=0,8192",
            format!("\"8192\" is not a number from 0 to 8191; {INDEXES}"),
        ),
        (
            "pu:4(indexes=2*2:1)",
            "indexes=2*2:1",
            format!("\"1\" is not STEP*COUNT; {INDEXES}"),
        ),
        (
            "pu:4(indexes=2*9)",
            "indexes=2*9",
            format!("it numbers more objects than the 4 there are; {INDEXES}"),
        ),
        (
            "pu:4(indexes=2*0)",
            "indexes=2*0",
            format!("\"2*0\" has a 0; {INDEXES}"),
        ),
    ];
    for (text, token, reason) in cases {
        let error = Topology::from_synthetic(text).expect_err(text).to_string();
        let expected = if token.is_empty() {
            format!("bad synthetic topology: {reason}")
        } else {
            format!("bad synthetic topology: {token:?}: {reason}")
        };
        assert_eq!(error, expected, "for {text:?}");
    }
}

#[test]
fn a_long_bad_part_is_cut_in_the_message() {
    let error = Topology::from_synthetic(&"x".repeat(100_000))
        .expect_err("garbage")
        .to_string();
    assert!(error.len() < 300, "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_makes_the_parser_panic(
        text in "((pack|l3|numa|\\[numa\\] |core|pu|x)?[:0-9*=,]{0,4}(\\(indexes=)?(core|numa)?[0-9,*:)]{0,6}[\\[\\]() \n]?){0,5}",
        any in "\\PC{0,40}",
    ) {
        for text in [&text, &any] {
            if let Err(error) = Topology::from_synthetic(text) {
                let error = error.to_string();
                prop_assert!(!error.contains('\n') && !error.is_empty(), "{}", error);
            }
        }
    }
}
