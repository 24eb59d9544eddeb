//! Building the peers' programs, in each language that this machine can compile, and asking them
//! what they offer.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A program, and the arguments that come before the peer's name.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) path: PathBuf,
    pub(crate) arguments: Vec<String>,
}

/// What a program offers: one peer in one loop, with one way to wait.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Offer {
    pub(crate) peer: String,
    pub(crate) version: String,
    #[serde(rename = "loop")]
    pub(crate) lap: String,
    pub(crate) mode: String,
}

/// All that could be built, and why something could not, a line each.
pub(crate) struct Built {
    pub(crate) offers: Vec<(Program, Offer)>,
    pub(crate) missing: Vec<String>,
}

/// A program of the C family and what it needs.
struct CProgram {
    name: &'static str,
    compiler: &'static str,
    sources: &'static [&'static str],
    flags: &'static [&'static str],
    package: Option<(&'static str, &'static str)>,
}

const C_PROGRAMS: [CProgram; 6] = [
    CProgram {
        name: "mutex-condvar",
        compiler: "cc",
        sources: &["mutex_pool.c"],
        flags: &[],
        package: None,
    },
    CProgram {
        name: "glib",
        compiler: "cc",
        sources: &["glib_pool.c"],
        flags: &[],
        package: Some(("glib-2.0", "libglib2.0-dev")),
    },
    CProgram {
        name: "libuv",
        compiler: "cc",
        sources: &["uv_pool.c"],
        flags: &[],
        package: Some(("libuv", "libuv1-dev")),
    },
    CProgram {
        name: "oneTBB",
        compiler: "c++",
        sources: &["tbb_pool.cpp"],
        flags: &[],
        package: Some(("tbb", "libtbb-dev")),
    },
    CProgram {
        name: "moodycamel",
        compiler: "c++",
        sources: &["moodycamel_pool.cpp"],
        flags: &[],
        package: None,
    },
    CProgram {
        name: "OpenMP",
        compiler: "cc",
        sources: &["openmp_pool.c"],
        flags: &["-fopenmp"],
        package: None,
    },
];

/// Builds all of it below `out`; `peers` is the folder with the sources. `only_rust`: what is asked
/// for is there in Rust only.
pub(crate) fn build(
    peers: &Path,
    out: &Path,
    only_cmwq: bool,
    only_rust: bool,
) -> Result<Built, String> {
    let mut built = Built {
        offers: Vec::new(),
        missing: Vec::new(),
    };
    let rust = rust(peers, out, only_cmwq, &mut built.missing)?;
    built.add(rust)?;
    if only_cmwq || only_rust {
        return Ok(built);
    }
    std::fs::create_dir_all(out).map_err(|error| format!("{}: {error}", out.display()))?;
    for program in &C_PROGRAMS {
        let result = c_family(program, &peers.join("c"), out);
        built.add_or_say(program.name, result)?;
    }
    built.add_or_say("Go", go(&peers.join("go"), out))?;
    built.add_or_say("Java", java(&peers.join("java"), out))?;
    Ok(built)
}

/// The programs that were built elsewhere, in the order of their names.
pub(crate) fn built_before(folder: &Path) -> Result<Built, String> {
    let failed = |error: std::io::Error| format!("--programs {}: {error}", folder.display());
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder)
        .map_err(failed)?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let is_own = ["peer-driver", "peer-floor"].contains(&&*name);
            name.starts_with("peer-") && !name.contains('.') && !is_own
        })
        .collect();
    paths.sort();
    let mut built = Built {
        offers: Vec::new(),
        missing: Vec::new(),
    };
    for path in paths {
        let name = path.display().to_string();
        let arguments = Vec::new();
        built.add_or_say(&name, Ok(Program { path, arguments }))?;
    }
    match built.offers.is_empty() {
        true => Err(format!("--programs {}: no program there", folder.display())),
        false => Ok(built),
    }
}

impl Built {
    fn add_or_say(&mut self, name: &str, result: Result<Program, String>) -> Result<(), String> {
        match result {
            Ok(program) => self.add(program),
            Err(why) => {
                self.missing.push(format!("{name}: {why}"));
                Ok(())
            }
        }
    }

    fn add(&mut self, program: Program) -> Result<(), String> {
        let output = Command::new(&program.path)
            .args(&program.arguments)
            .arg("list")
            .output()
            .map_err(|error| format!("{}: {error}", program.path.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            let offer: Offer = serde_json::from_str(line)
                .map_err(|error| format!("{}: its list: {error}", program.path.display()))?;
            self.offers.push((program.clone(), offer));
        }
        Ok(())
    }
}

/// The Rust peers; without a network perhaps only cmwq.
fn rust(
    peers: &Path,
    out: &Path,
    only_cmwq: bool,
    missing: &mut Vec<String>,
) -> Result<Program, String> {
    let build = |with_peers: bool| {
        let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        cargo
            .args([
                "build",
                "--release",
                "--locked",
                "--quiet",
                "-p",
                "peer-pools",
                "-p",
                "peer-floor",
            ])
            .arg("--manifest-path")
            .arg(peers.join("rust/Cargo.toml"));
        if !with_peers {
            cargo.arg("--no-default-features");
        }
        run_tool(&mut cargo)
    };
    if only_cmwq {
        build(false)?;
    } else if let Err(why) = build(true) {
        missing.push(format!("tokio, rayon and the other crates: {why}"));
        build(false)?;
    }
    let directory = out.parent().unwrap_or(out);
    Ok(Program {
        path: directory.join("peer-pools"),
        arguments: Vec::new(),
    })
}

fn c_family(program: &CProgram, sources: &Path, out: &Path) -> Result<Program, String> {
    if !exists(program.compiler) {
        return Err(format!("no {} on this machine", program.compiler));
    }
    let mut flags = Vec::new();
    let mut version = "C".to_owned();
    if let Some((package, debian)) = program.package {
        let absent = format!("{package} was not found (Debian: {debian}, pkg-config)");
        let config = |what: &str| {
            let output = Command::new("pkg-config").args([what, package]).output();
            output
                .ok()
                .filter(|output| output.status.success())
                .map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
                .ok_or_else(|| absent.clone())
        };
        version = format!("{} {}", program.name, config("--modversion")?);
        let cflags = config("--cflags")?;
        let libs = config("--libs")?;
        flags.extend(cflags.split_whitespace().map(str::to_owned));
        flags.extend(libs.split_whitespace().map(str::to_owned));
    }
    let path = out.join(format!("peer-{}", program.name));
    let mut compile = Command::new(program.compiler);
    compile
        .args(["-O2", "-Wall", "-Wextra", "-pthread"])
        .args(program.flags)
        .arg(format!("-DPEER_VERSION=\"{version}\""))
        .arg("-o")
        .arg(&path)
        .args(program.sources.iter().map(|source| sources.join(source)))
        .args(flags);
    run_tool(&mut compile)?;
    Ok(Program {
        path,
        arguments: Vec::new(),
    })
}

fn go(sources: &Path, out: &Path) -> Result<Program, String> {
    let usual = Path::new("/usr/local/go/bin/go");
    let go = match exists("go") {
        true => Path::new("go"),
        false if usual.exists() => usual,
        false => return Err("no go on this machine (Debian: golang-go)".to_owned()),
    };
    let path = out.join("peer-go");
    run_tool(
        Command::new(go)
            .arg("build")
            .arg("-o")
            .arg(&path)
            .arg(".")
            .current_dir(sources),
    )?;
    Ok(Program {
        path,
        arguments: Vec::new(),
    })
}

fn java(sources: &Path, out: &Path) -> Result<Program, String> {
    if !exists("javac") || !exists("java") {
        return Err("no javac on this machine (Debian: openjdk-17-jdk)".to_owned());
    }
    let classes = out.join("java");
    let mut files: Vec<PathBuf> = std::fs::read_dir(sources)
        .map_err(|error| format!("{}: {error}", sources.display()))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "java")
        })
        .collect();
    files.sort();
    run_tool(Command::new("javac").arg("-d").arg(&classes).args(files))?;
    Ok(Program {
        path: PathBuf::from("java"),
        arguments: vec![
            "-cp".to_owned(),
            classes.to_string_lossy().into_owned(),
            "Main".to_owned(),
        ],
    })
}

/// Runs a compiler; its first complaint is the error.
fn run_tool(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let complaints = String::from_utf8_lossy(&output.stderr);
    let first = complaints
        .lines()
        .find(|line| line.contains("error"))
        .or(complaints.lines().next())
        .unwrap_or("it failed and said nothing");
    Err(format!("{name}: {}", first.trim()))
}

/// Whether the search path has such a command.
fn exists(command: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| {
        std::env::split_paths(&path).any(|directory| directory.join(command).is_file())
    })
}
