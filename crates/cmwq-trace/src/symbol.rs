//! The name of the code at an address.

use crate::elf::{self, Mapped};
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::sync::Mutex;

/// The names that were looked up in files, by address.
static FOUND: Mutex<Vec<(usize, Option<String>)>> = Mutex::new(Vec::new());
/// How many names are kept.
const MOST_FOUND: usize = 1024;

/// Whether the Rust compiler has made this name: it says less than the closure's type and place,
/// and ends in a hash.
fn is_of_rust(name: &str) -> bool {
    let hash =
        |end: &str| end.len() == 17 && end.bytes().all(|b| b == b'E' || b.is_ascii_hexdigit());
    let legacy = name
        .strip_prefix("_ZN")
        .and_then(|rest| rest.rsplit_once("17h"));
    name.starts_with("_R") || legacy.is_some_and(|(_, end)| hash(end))
}

/// What stands before and behind the type of a function in the names of the items of `cmwq.hpp`.
const OF_CPP: [(&str, &str); 5] = [
    ("cmwq::detail::one_shot<", ">::run(cmwq_work*)"),
    ("cmwq::detail::posted<", ">::run(void*)"),
    ("cmwq::scope_items::entry<", ">::run(cmwq_work*)"),
    ("void cmwq::work::run<", ">(cmwq_work*)"),
    ("void cmwq::delayed_work::run<", ">(cmwq_work*)"),
];
/// The same of what `submit` makes of a function: here stands the type of the result before that of
/// the function, and those of the arguments behind it.
const PROMISED: (&str, &str) = ("cmwq::detail::promised<", ">");

/// The function in the name of an item of `cmwq.hpp`.
fn function_of_cpp(name: &str) -> Option<&str> {
    let function = OF_CPP.iter().find_map(|&of| between(name, of))?;
    let promised = between(function, PROMISED);
    let promised = promised.and_then(|types| types_of(types).nth(1));
    Some(promised.unwrap_or(function))
}

fn between<'a>(text: &'a str, (before, behind): (&str, &str)) -> Option<&'a str> {
    let rest = text.strip_prefix(before)?.strip_suffix(behind)?;
    Some(rest.trim_end())
}

/// The types in a list of them.
fn types_of(list: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_i32;
    let is_end = move |c: char| {
        match c {
            '<' | '(' | '{' | '[' => depth += 1,
            '>' | ')' | '}' | ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    };
    list.split(is_end).map(str::trim)
}

/// A name of C++ as its source has it, if the program has the library that can tell. An item of
/// `cmwq.hpp` has the name of its function.
fn demangled(symbol: String) -> String {
    type Demangle = unsafe extern "C" fn(
        *const libc::c_char,
        *mut libc::c_char,
        *mut libc::size_t,
        *mut libc::c_int,
    ) -> *mut libc::c_char;
    let (true, Ok(mangled)) = (symbol.starts_with("_Z"), CString::new(symbol.as_str())) else {
        return symbol;
    };
    // SAFETY: the name ends with 0.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_demangle".as_ptr()) };
    if found.is_null() {
        return symbol;
    }
    // SAFETY: the C++ ABI fixes the function's type.
    let demangle = unsafe { std::mem::transmute::<*mut c_void, Demangle>(found) };
    let (none, nothing) = (std::ptr::null_mut(), std::ptr::null_mut());
    let mut status = 0;
    // SAFETY: a name that ends with 0; without a buffer it allocates the answer, which is null or
    // ends with 0.
    let text = unsafe { demangle(mangled.as_ptr(), none, nothing, &mut status) };
    if text.is_null() {
        return symbol;
    }
    // SAFETY: as above.
    let name = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: it came from malloc, and is used no more.
    unsafe { libc::free(text.cast()) };
    match function_of_cpp(&name) {
        Some(function) => function.to_owned(),
        None => name,
    }
}

/// The symbol of a function that its file does not export, from the file itself. A name that the
/// Rust compiler has made is none.
fn local_symbol(address: usize, base: usize) -> Option<String> {
    // In the child of a fork, a thread of the parent may hold the lock for ever.
    let found = FOUND.try_lock().ok();
    let known = |own: &&(usize, Option<String>)| own.0 == address;
    if let Some(known) = found.as_ref().and_then(|found| found.iter().find(known)) {
        return known.1.clone();
    }
    let path = mapped_file(address)?;
    let name = elf::function_at(&Mapped { path, base }, address)
        .filter(|name| !is_of_rust(name))
        .map(demangled);
    if let Some(mut found) = found.filter(|found| found.len() < MOST_FOUND) {
        found.push((address, name.clone()));
    }
    name
}

/// The file that is mapped at this address. The loader's name of the program itself is how it was called.
fn mapped_file(address: usize) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    let within = |line: &&str| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let number = |text: &str| usize::from_str_radix(text, 16).ok();
        range.is_some_and(|(from, to)| {
            number(from).is_some_and(|from| from <= address)
                && number(to).is_some_and(|to| address < to)
        })
    };
    let line = maps.lines().find(within)?;
    line.find('/').map(|at| line[at..].to_owned())
}

/// Returns the name of the function that begins at an address of this process: its symbol, also if
/// its file does not export it. A C++ name is demangled. The result is the file and the offset in it
/// (`addr2line -f -e FILE OFFSET` turns these into a name) if no symbol begins there, or a name that
/// the Rust compiler made; and the bare address if no file is mapped there.
///
/// ```
/// assert_eq!(cmwq_trace::symbol_at(libc::malloc as *const () as usize), "malloc");
/// assert_eq!(cmwq_trace::symbol_at(1), "0x1");
/// ```
pub fn symbol_at(address: usize) -> String {
    let mut info = libc::Dl_info {
        dli_fname: std::ptr::null(),
        dli_fbase: std::ptr::null_mut(),
        dli_sname: std::ptr::null(),
        dli_saddr: std::ptr::null_mut(),
    };
    let at = std::ptr::without_provenance::<c_void>(address);
    // SAFETY: dladdr only compares the address with the ranges of the loaded files and fills in `info`.
    let found = unsafe { libc::dladdr(at, &mut info) } != 0;
    let text = |text: *const libc::c_char| {
        // SAFETY: dladdr's strings end with 0 and live as long as the file is loaded, which it is:
        // its code was queued.
        (found && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
    };
    if let Some(symbol) = text(info.dli_sname).filter(|_| info.dli_saddr.addr() == address) {
        return demangled(symbol.into_owned());
    }
    let base = info.dli_fbase.addr();
    if let Some(symbol) = found.then(|| local_symbol(address, base)).flatten() {
        return symbol;
    }
    match text(info.dli_fname) {
        Some(file) => {
            let name = Path::new(file.as_ref()).file_name().unwrap_or_default();
            format!("{}+{:#x}", name.display(), address - info.dli_fbase.addr())
        }
        None => format!("{address:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{function_of_cpp, is_of_rust, symbol_at};

    #[test]
    fn an_item_of_cpp_has_the_name_of_its_function() {
        for (name, function) in [
            (
                "cmwq::detail::one_shot<main::{lambda()#2}>::run(cmwq_work*)",
                "main::{lambda()#2}",
            ),
            (
                "cmwq::detail::one_shot<cmwq::detail::promised<void, main::{lambda()#1}> >::run(cmwq_work*)",
                "main::{lambda()#1}",
            ),
            (
                "cmwq::detail::one_shot<cmwq::detail::promised<std::pair<int, int>, serve(std::map<int, long>, \
                 int)::{lambda(int, int)#1}, int, int> >::run(cmwq_work*)",
                "serve(std::map<int, long>, int)::{lambda(int, int)#1}",
            ),
            (
                "cmwq::detail::posted<main::{lambda()#4}>::run(void*)",
                "main::{lambda()#4}",
            ),
            (
                "void cmwq::work::run<cache<int>::{lambda()#1} >(cmwq_work*)",
                "cache<int>::{lambda()#1}",
            ),
        ] {
            assert_eq!(function_of_cpp(name), Some(function));
        }
        assert_eq!(function_of_cpp("server::run(cmwq_work*)"), None);
    }

    #[test]
    fn names_of_rust_are_told_from_names_of_cpp() {
        for name in [
            "_RNvCs1234_7mycrate3foo",
            "_ZN4core3fmt9Formatter3pad17h0123456789abcdefE",
        ] {
            assert!(is_of_rust(name), "{name}");
        }
        for name in [
            "main",
            "_ZL11slow_reporti",
            "_ZN4cmwq6detail8one_shotIZ4mainEUlvE_E3runEP9cmwq_work",
        ] {
            assert!(!is_of_rust(name), "{name}");
        }
    }

    #[test]
    fn an_exported_function_has_its_name_and_another_its_place() {
        assert_eq!(symbol_at(libc::malloc as *const () as usize), "malloc");
        let here = symbol_at(symbol_at as *const () as usize);
        assert!(here.contains("+0x"), "{here}");
        // As a static function of a C program: it is in the symbol table of the file alone.
        #[unsafe(no_mangle)]
        extern "C" fn cmwq_test_of_local_symbols() {}
        let local = cmwq_test_of_local_symbols as *const () as usize;
        for _ in 0..2 {
            assert_eq!(symbol_at(local), "cmwq_test_of_local_symbols");
        }
        assert_eq!(symbol_at(1), "0x1");
    }
}
