//! The machine in words. Never the host's name.

use std::fs;

/// The CPU's name; the architecture where it has none.
pub fn cpu_model() -> String {
    model_in(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default())
}

/// The release of the running kernel.
pub fn kernel() -> String {
    fs::read_to_string("/proc/sys/kernel/osrelease")
        .map_or_else(|_| "unknown".to_owned(), |text| text.trim().to_owned())
}

/// The CPU's name from the text of /proc/cpuinfo; the architecture where it has none.
fn model_in(cpuinfo: &str) -> String {
    let value = |key: &str| {
        cpuinfo.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            (name.trim() == key && !value.trim().is_empty()).then(|| value.trim().to_owned())
        })
    };
    value("model name")
        .or_else(|| value("cpu model"))
        .or_else(|| value("cpu"))
        .or_else(|| {
            let (vendor, part) = (value("CPU implementer")?, value("CPU part")?);
            Some(format!(
                "{} (implementer {vendor}, part {part})",
                std::env::consts::ARCH
            ))
        })
        .unwrap_or_else(|| std::env::consts::ARCH.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cpu_has_a_name_on_every_architecture() {
        assert_eq!(
            model_in("processor\t: 0\nmodel name\t: AMD EPYC 9654\n"),
            "AMD EPYC 9654"
        );
        let arm = model_in("processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
        assert!(arm.ends_with("(implementer 0x41, part 0xd4f)"), "{arm}");
        assert_eq!(model_in(""), std::env::consts::ARCH);
        assert_eq!(model_in("model name :\n"), std::env::consts::ARCH);
    }
}
