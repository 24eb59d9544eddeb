//! The full symbol table of an ELF file: it names functions that the file does not export, such as
//! the static functions of a C program.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// An object that is mapped into this process.
pub(crate) struct Mapped {
    /// Its path, and where it was mapped.
    pub(crate) path: String,
    pub(crate) base: usize,
}

/// The most bytes of a table that are read.
const MOST: u64 = 1 << 30;
const SYMTAB: u32 = 2;
const FUNCTION: u8 = 2;
/// The file was linked for addresses of its own.
const EXECUTABLE: u16 = 2;

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

fn read(file: &File, offset: u64, size: u64) -> Option<Vec<u8>> {
    if size > MOST {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(size).ok()?];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

/// The contents of the section that this header describes.
fn section(file: &File, header: &[u8]) -> Option<Vec<u8>> {
    read(file, u64_at(header, 0x18)?, u64_at(header, 0x20)?)
}

/// The name of the function that begins at `address` in the object. `None`: the file is stripped,
/// or cannot be read, or has none there.
pub(crate) fn function_at(object: &Mapped, address: usize) -> Option<String> {
    let file = File::open(&object.path).ok()?;
    let header = read(&file, 0, 64)?;
    // 64 bits, little-endian: as this process.
    if header.get(..6)? != b"\x7fELF\x02\x01" || cfg!(target_endian = "big") {
        return None;
    }
    let (offset, size) = (u64_at(&header, 0x28)?, usize::from(u16_at(&header, 0x3a)?));
    let count = usize::from(u16_at(&header, 0x3c)?);
    if size < 64 {
        return None;
    }
    let headers = read(&file, offset, (size * count) as u64)?;
    let headers: Vec<&[u8]> = headers.chunks_exact(size).collect();
    let is_symtab = |header: &&&[u8]| u32_at(header, 4) == Some(SYMTAB);
    let symtab = headers.iter().find(is_symtab)?;
    let strings = section(&file, headers.get(u32_at(symtab, 0x28)? as usize)?)?;
    let begin = match u16_at(&header, 0x10)? {
        EXECUTABLE => address,
        _ => address.checked_sub(object.base)?,
    };
    let symbols = section(&file, symtab)?;
    let mut symbols = symbols.chunks_exact(24);
    let symbol = symbols
        .find(|symbol| symbol[4] & 0xf == FUNCTION && u64_at(symbol, 8) == Some(begin as u64))?;
    let name = strings.get(u32_at(symbol, 0)? as usize..)?;
    let end = name.iter().position(|&byte| byte == 0)?;
    let name = std::str::from_utf8(&name[..end]).ok()?;
    (!name.is_empty()).then(|| name.to_owned())
}
