//! Tests of the table of parameters.

use super::*;

#[test]
fn the_table_is_sorted_and_every_line_is_complete() {
    assert!(TABLE.windows(2).all(|pair| pair[0].name < pair[1].name));
    let engine = Engine::builder().build().unwrap();
    for Setting {
        name,
        help,
        writable,
        ..
    } in Engine::parameter_settings()
    {
        assert!(!help.is_empty() && !help.contains('\n'), "{name}");
        let value = engine.parameter(name).unwrap();
        assert!(!value.contains('\n'), "{name}: {value:?}");
        let error = engine.set_parameter(name, "?").unwrap_err();
        assert!(error.message.starts_with(name), "{name}: {error}");
        let expected = if writable { Errno::Inval } else { Errno::Acces };
        assert_eq!(error.errno, expected, "{name}: {error}");
    }
}

#[test]
fn what_is_refused_says_why() {
    let engine = Engine::builder().build().unwrap();
    let why = |name, text| engine.set_parameter(name, text).unwrap_err().message;
    assert_eq!(
        why("power_efficient", "Y"),
        "power_efficient can only be read: it is fixed when the engine is built"
    );
    assert_eq!(why("running_limit", "1"), "running_limit can only be read");
    let empty = why("cpumask", "0");
    assert!(empty.contains("there is no CPU in the mask"), "{empty}");
}

/// The environment does not change a field that the program has set.
#[test]
fn every_variable_fills_an_empty_field_and_no_other() {
    for Variable { name, read, .. } in TABLE.iter().filter_map(|own| own.variable.as_ref()) {
        let mut builder = EngineBuilder::new();
        assert!(!read(&mut builder, Some("?")), "{name} takes anything");
        assert!(!read(&mut builder, None), "{name} takes what is not UTF-8");
        let texts = ["1", "cache", "0-1"];
        let good = texts.iter().find(|text| read(&mut builder, Some(text)));
        assert!(good.is_some(), "{name} takes nothing");
        let before = format!("{builder:?}");
        assert!(read(&mut builder, Some("?")), "{name} is looked at");
        assert_eq!(before, format!("{builder:?}"));
    }
}
