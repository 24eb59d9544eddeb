//! Copies the library's sources and puts all pieces of the museum in, each behind a question that
//! is answered at run time.

use std::path::Path;
use std::{env, fs, io};

#[allow(dead_code, unreachable_pub, reason = "the program uses the rest")]
#[path = "src/pieces/mod.rs"]
mod pieces;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/pieces");
    println!("cargo::rerun-if-changed=../cmwq/src");
    println!("cargo::rustc-cfg=cmwq_sim");
    println!("cargo::rustc-link-arg-bins=-no-pie");
    let out = env::var("OUT_DIR").expect("cargo sets it");
    let copy = Path::new(&out).join("library");
    // What is there is an older copy, or nothing.
    let _ = fs::remove_dir_all(&copy);
    copy_tree(Path::new("../cmwq/src"), &copy).expect("the sources can be copied");
    let mut without_a_place = Vec::new();
    for (number, piece) in pieces::all().enumerate() {
        let question = format!("crate::mutation::is({number})");
        for edit in piece.edits {
            let path = copy.join(edit.file);
            let source = fs::read_to_string(&path).expect(edit.file);
            // A piece may share a place with another one, which has left its mark there.
            if source.matches(edit.from).count() != 1 {
                // The library has changed there. It must still build; a test says that the piece
                // needs a new place.
                println!("cargo::warning={}: {} has changed", piece.name, edit.file);
                without_a_place.push(piece.name);
                continue;
            }
            let mutated = source.replace(edit.from, &edit.to.replace("MUTANT", &question));
            fs::write(&path, mutated).expect(edit.file);
        }
    }
    let list = format!("&{without_a_place:?}");
    fs::write(Path::new(&out).join("without_a_place.rs"), list).expect("the list can be written");
    let root = copy.join("lib.rs");
    let library = fs::read_to_string(&root).expect("lib.rs");
    // It is included: what belongs to a crate's first lines may not stand there.
    let kept: Vec<&str> = library
        .lines()
        .filter(|line| !line.starts_with("//!") && !line.starts_with("#!["))
        .filter(|line| !line.contains("include_str!"))
        .collect();
    fs::write(&root, kept.join("\n") + MUTATION).expect("lib.rs");
}

const MUTATION: &str = "
/// Which piece of the museum is active.
pub mod mutation {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static CHOSEN: AtomicUsize = AtomicUsize::new(usize::MAX);

    /// From now on this one is.
    pub fn choose(number: usize) {
        CHOSEN.store(number, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn is(number: usize) -> bool {
        CHOSEN.load(Ordering::Relaxed) == number
    }
}
";

fn copy_tree(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_tree(&entry.path(), &target)?;
        } else {
            fs::write(&target, fs::read(entry.path())?)?;
        }
    }
    Ok(())
}
